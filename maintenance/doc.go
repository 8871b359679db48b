// Package maintenance works across all stores of a file. Salvage copies the intact rows of a
// damaged file into a new one, Check reads everything as the stores do, Recover frees what dead
// processes held, Prune applies the retention to items that have ended, and Redact erases a secret
// everywhere.
package maintenance
