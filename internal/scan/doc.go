// Package scan reads rows into what a caller gives for them: columns, structs with db tags, slices
// of either. The names of a struct's fields are sqlx's, and so are the conversions database/sql's.
// What is different is when a caller's own code runs: database/sql calls a sql.Scanner under a lock
// that closing the rows takes too, so that one which panics, or leaves by runtime.Goexit, has
// whoever closes them wait for ever. Here a Scanner is called when nothing is locked.
package scan
