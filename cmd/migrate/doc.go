// Command migrate imports old trees into a Selvedge file and exports them again, migrates the
// file's schema, maintains the file, and shows what it holds. docs/CLI.md is its contract: every
// command, flag, exit code and JSON field.
//
// A command is a file here, named after it. It opens the file through app, writes its answer
// through output.go, and returns an error that errors.go turns into an exit code.
package main

//go:generate go test -run TestTheReferenceIsWhatTheProgramSays -count=1 . -update
