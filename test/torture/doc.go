// Command torture judges what Selvedge promises of the disk. It runs scripts of public writes in
// a separate process, which it stops at each system call that touches the file's folder. There it
// kills the process, makes the call fail or records the writes to the disk, to build the images
// that a power cut could have left. Then it opens the folder with the product, and compares it
// with the answers that the process received.
//
// # What is judged
//
// The file opens and works. db.Check, SQLite's integrity_check and foreign_key_check find
// nothing. An acknowledged operation is there once and whole; a refused one is not there; any
// other is there whole or not at all. What the same handle read after a fault is what a new one
// reads. Sequences have no holes, and a claim has one holder.
//
// # What is not
//
// The kernel, the drive and SQLite's own arithmetic are trusted: a sync that returns without an
// error has happened, and a sector of 512 bytes is written or not.
package main
