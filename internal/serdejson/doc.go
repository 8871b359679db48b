// Package serdejson reads and writes JSON as serde_json 1.0 does, the library of several of the
// originals: 127 levels at most, no lone surrogates, no number beyond a float, its number formats,
// and its error texts with line and column.
//
// [Check] judges a whole text. A [Scanner] walks through one and hands out spans of it, which the
// other functions take: they don't check again what a scanner has accepted. [Fields] reads the
// fields of a struct, and says of a value that is JSON but not of the right shape what the
// originals' readers say; which structs there are is the stores' business.
package serdejson
