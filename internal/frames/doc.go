// Package frames makes SQLite write each frame of a WAL with one call, and numbers a new WAL.
//
// A frame is a header of 24 bytes and a page (sqlite.org/walformat.html), and SQLite writes them
// one after the other: two calls for each page that a commit changed, eight of the fourteen calls
// of an append. Here the header waits for its page, which is the next thing that SQLite writes.
// Decision 0017.
//
// A number ties a WAL to its file: it goes into the file between the header of a new WAL and its
// first frame. Decision 0022.
package frames
