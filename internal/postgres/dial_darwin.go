package postgres

import "syscall"

// giveUpEarly sets nothing here: keepalives detect a host that was cut off.
func giveUpEarly(string, string, syscall.RawConn) error { return nil }
