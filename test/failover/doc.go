// Package failover judges what Selvedge promises of a PostgreSQL cluster that loses its primary,
// and of a server whose callers die. Its tests start three servers under Patroni and etcd
// (tools/cluster), have processes write through the stores and follow what is written, and kill,
// stop or cut off the primary.
//
// # What is judged
//
// What was acknowledged is there once; what was said to have failed is not there; nothing is there
// of which nobody was told. Sequences have no holes. What one holder has at a time is written under
// in the order of its epochs, and each epoch has one holder. A checkpoint is completed once. A
// follower that goes on from its cursors, through every error, has each item once and in order. How
// long nobody was told "done" is reported, not judged.
//
// What comes and goes is there if it was made and nobody went about taking it away, and is not once
// it was taken away.
//
// The same judge hears what processes on one server say that are killed, stopped and cut off at
// random (TestPostgresTheStoresStandAStorm). Of those that were killed the last calls may have been
// done, and nobody was told.
//
// A cluster whose commits wait for no standby must lose something, or the judge sees nothing.
package failover
