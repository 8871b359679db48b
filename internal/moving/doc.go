// Package moving brings all rows of one database into another, of whatever engine, and proves that
// they are the same there. It names no engine: what it asks of one is engine.Movable.
package moving
