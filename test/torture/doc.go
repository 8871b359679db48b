// Command torture judges what Selvedge promises of the disk. It runs scripts of public writes in a
// process of their own, which it stops at each system call that touches the file's folder, and
// there it kills the process, makes the call fail or writes down what the disk was told, to build
// the images that a power cut could have left. Then it opens what is left, with the product, and
// compares it with what the process had been told.
//
// # What is judged
//
// The file opens and goes on working. db.Check, SQLite's integrity_check and foreign_key_check find
// nothing. What was acknowledged is there once and whole; what was refused is not there; what was
// neither is there whole or not at all. What the same handle read after a fault is what a new one
// reads. Sequences have no holes, and a claim has one holder.
//
// # What is not
//
// The kernel, the drive and SQLite's own arithmetic are believed: a sync that returns without an
// error has happened, and a sector of 512 bytes is written or not.
package main
