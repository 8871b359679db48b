// Package browser tests the pages of migrate serve in a real Chromium, which Debian's package chromium
// brings, and that DuckDB can parse the views of a file. It is a module of its own: the product does not
// need what drives a browser.
//
// SCREENSHOTS=folder keeps a picture of each page, and RUNS=number says how many runs are there, which are
// 5,000 otherwise.
package browser
