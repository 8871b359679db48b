// Package replay plays transcripts: sequences of calls on one of the five original stores, with
// the answers of the original. A store's test defines how a call is made on our store ([Player]);
// this package reads the files, replaces generated values by their aliases, compares the answers
// by value, and counts.
//
// A player that answers otherwise on purpose names the rule of testdata/legacy/README.md for
// that, and returns the required answer: usually that of a small model of the original in which
// that difference is switched on. With nothing switched on, the same model must return every
// recorded answer, so that a falsified answer is noticed there too.
package replay
