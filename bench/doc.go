// Command bench measures Selvedge against what it replaces, and prints a table of ratios.
//
// Every ratio is taken in one run: a round measures the baseline and ours one after the other,
// the order changes from round to round, and the ratio shown is the median of the rounds' ratios.
// Times beside it are medians too. A machine that gets slower in the middle slows both.
//
// The baselines are honest. Package original makes the calls of the original stores, one for one.
// C SQLite runs in a separate program (bench/csqlite, built with cgo), on a file that our
// migrations made, with our pragmas and statements. "No group commit" is our own store behind a
// mutex.
//
// docs/performance.md explains each row and records past results.
package main
