// Package pages reads an SQLite file page by page, without SQLite: what lies on a page that is
// whole can be read whatever became of the pages that lead to it. The format is that of
// sqlite.org/fileformat.html.
package pages
