// Package traces holds what lies under package runs: the lines of traces, byte for byte as the
// program wrote them whose trees are imported, the rows of runs and their records with the SQL that
// writes and reads them, and the table as an import needs it. Its types say what stands in a line
// or a row; what callers see is in package runs.
package traces
