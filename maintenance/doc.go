// Package maintenance works across all stores of a file. Salvage brings what is whole of a damaged file
// into a new one, Check reads everything as the stores do, Recover takes what only the dead held, Prune
// removes what has ended and is not to be kept any longer, and Redact erases a secret everywhere.
package maintenance
