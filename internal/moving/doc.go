// Package moving copies all rows of one database into another, of whatever engine, and proves that
// they are the same there. It names no engine: it uses each one through engine.Movable.
package moving
