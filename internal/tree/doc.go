// Package tree imports, verifies and exports the trees of files that the old programs wrote. It has
// what all kinds of tree share; a [Layout], in the package of its store, has the rest for one kind.
//
// An import walks over the files and sends them in pieces to the writer, which imports many pieces
// in one transaction (import.go, prefetch.go). The ledger records how far each file was read
// (ledger.go). The quarantine keeps what could not be imported (quarantine.go, retry.go), and the
// journal lists the imports (journal.go). If both programs changed a thing, there is a conflict
// (conflict.go). A verification imports the tree again into an empty database and compares all rows
// (derive.go, verify.go, comparerows.go, coverage.go, proof.go). An export writes a new tree and reads
// it back as the old program does (export.go, giveback.go, readback.go).
//
// Logs have no reader in common. A trace (runs) only grows, and is imported line by line from the
// offset in the ledger. A worker's transcript and a runtime's events (workers) must agree with the
// documents beside them, so the folder of a runtime is read whole.
package tree
