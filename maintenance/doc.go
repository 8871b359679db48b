// Package maintenance has what an operator of a database needs. Migrate, Move, Restore, Compact and
// Salvage work on a whole file, or a server's database, that no handle has open. Repair, Scrub and
// GiveBack work on an open one. SetRetention stores limits, and Prune applies them in all stores;
// Check reads everything as the stores do, Recover frees what dead processes held, and Redact
// erases a secret everywhere.
package maintenance
