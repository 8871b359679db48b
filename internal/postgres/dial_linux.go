package postgres

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unanswered is how long, in milliseconds, sent data may go without an acknowledgement by the
// other host: a host that was cut off sends nothing.
const unanswered = 12_000

// limitRetries sets TCP_USER_TIMEOUT (man 7 tcp).
func limitRetries(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failed error
	if err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unanswered)
	}); err != nil {
		return err
	}
	return failed
}
