// Command peers measures Selvedge beside other stores that a Go program can put its records into: a
// table with an index by four drivers for SQLite, a queue, two key-value stores, a workflow engine and
// an agent framework. Each is set up as its own documentation recommends, with the same durability.
// It is a module of its own, because these bring hundreds of others, and C.
//
// docs/performance.md has its figures.
package main
