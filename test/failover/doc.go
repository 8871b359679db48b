// Package failover judges what Selvedge promises of a PostgreSQL cluster that loses its primary,
// and of a server whose callers die. Its tests start three servers under Patroni and etcd
// (tools/cluster), have processes write through the stores and follow what is written, and kill,
// stop or cut off the primary.
//
// # What is judged
//
// An acknowledged change is there once; a change that was reported as failed is not there; each
// change that is there was reported to a caller. Sequences have no holes. Writes under an
// exclusive hold are in the order of its epochs, and each epoch has one holder. A checkpoint is
// completed once. A follower that continues from its cursors, through every error, receives each
// item once and in order. The time without an acknowledgement is reported, not judged.
//
// A thing that is made and removed is there if it was made and no process tried to remove it, and
// is not there once it was removed.
//
// The same judge reads the reports of processes on one server that are killed, stopped and cut
// off at random (TestPostgresTheStoresStandAStorm). The last calls of those that were killed may
// have been done without a report.
//
// A cluster whose commits wait for no standby must lose something, or the judge sees nothing.
package failover
