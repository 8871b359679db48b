// Package scan reads rows into a caller's destinations: columns, structs with db tags, slices of
// either. It names a struct's fields as sqlx does, and converts values as database/sql does. It
// differs in when it runs a caller's own code: database/sql calls a sql.Scanner under a lock that
// closing the rows takes too, so that after one that panics, or leaves by runtime.Goexit, closing
// waits without end. Here a Scanner is called when nothing is locked.
package scan
