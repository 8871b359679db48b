// Package maintenance goes over all stores of a file. Salvage brings what is whole of a damaged one into a new one.
package maintenance
