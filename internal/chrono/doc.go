// Package chrono reads and writes times as chrono 0.4 does for DateTime<Utc>. Several originals use
// that library. Reading is laxer than RFC 3339: it accepts blanks, a space for the T, and signed
// years of any length. Writing is in UTC, with 0, 3, 6 or 9 digits of fraction.
//
// Errors have chrono's texts. The originals accept the leap second 60, which a time.Time can't hold:
// [Parse] returns its text too, and [Text] writes it again. A time is in range if its year is from
// -262143 to 262142; see [InRange].
package chrono
