// Package serdejson reads and writes JSON as serde_json 1.0 does, the library of several originals:
// at most 127 levels, no lone surrogates, no number beyond a float, the library's number formats,
// and its error texts with line and column.
//
// [Check] checks a whole text. A [Scanner] goes through one and returns parts of it for the other
// functions, which don't check again what a scanner has accepted. [Fields] reads the fields of a
// struct. For a value that is JSON but has the wrong shape, its errors are those of the originals.
// The stores define the structs.
package serdejson
