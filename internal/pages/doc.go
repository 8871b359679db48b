// Package pages reads an SQLite file page by page, without SQLite: a whole page can be read even
// if the pages that lead to it are damaged. The format is that of sqlite.org/fileformat.html.
package pages
