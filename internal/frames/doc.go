// Package frames makes SQLite write the frames of a commit with one call, and numbers a new WAL.
//
// A frame is a header of 24 bytes and a page (sqlite.org/walformat.html), and SQLite writes them
// one after the other: two calls for each page that a commit changed. Here the header waits for its
// page, and the frames of a commit for its last one. Decision 0019.
//
// A number ties a WAL to its file: it goes into the file between the header of a new WAL and its
// first frame. Decision 0022.
//
// After a failed sync, the commits in the WAL are written again. Decision 0011.
package frames
