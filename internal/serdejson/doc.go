// Package serdejson reads and writes JSON as serde_json 1.0 does, the library of several of the originals: 127 levels at
// most, no lone surrogates, no number beyond a float, its number formats, and its error texts with line and column.
package serdejson
