// Package maintenance goes over all stores of a file: it saves what is whole of a damaged one.
package maintenance
