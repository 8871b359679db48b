package runs

import (
	"bytes"
	"fmt"

	"selvedge/db"
	"selvedge/internal/serdejson"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

// The kinds of a row of run_records. An opaque line is not a record of any kind: it is kept so that
// an export writes the file that was imported.
const (
	kindTurn    = "turn"
	kindStarted = "started"
	kindEnded   = "ended"
	kindUnknown = "unknown"
	kindOpaque  = "opaque"
)

// recordRow is a row of run_records without its id.
type recordRow struct {
	kind        string
	unknownKind *string
	turnIndex   *int64
	prompt      *string
	tool        *string
	parameters  []byte
	output      []byte
	cliKind     *string
	cliCode     *int64
	verdict     *string
	policyRule  *string
	policyParam *string
	raw         []byte
	exact       bool
	// Columns that are not of the record, as arguments that all rows of a call share. Readers leave
	// them unset.
	batch      any
	recordedAt any
	// counts is what the record counts; nil: nothing. Readers leave it unset.
	counts *usage.Counts
}

const recordColumns = `kind, unknown_kind, turn_index, prompt, tool, parameters, output, cli_kind,
	cli_code, verdict, policy_rule, policy_param, raw, exact`

// writtenColumns are all columns but the id. The checksum and the run's bytes so far come last.
const writtenColumns = recordColumns + `, batch, recorded_at, checksum, bytes`

// args appends the values of writtenColumns except the last.
func (r *recordRow) args(before ...any) []any {
	first := len(before)
	before = append(before, r.kind, txn.Arg(r.unknownKind), txn.Arg(r.turnIndex), txn.Arg(r.prompt),
		txn.Arg(r.tool), txn.Blob(r.parameters), txn.Blob(r.output), txn.Arg(r.cliKind), txn.Arg(r.cliCode),
		txn.Arg(r.verdict), txn.Arg(r.policyRule), txn.Arg(r.policyParam), txn.Blob(r.raw), r.exact, r.batch,
		r.recordedAt)
	return append(before, txn.Checksum(before[first:]...))
}

// targets appends the scan targets of recordColumns.
func (r *recordRow) targets(before ...any) []any {
	return append(before, &r.kind, &r.unknownKind, &r.turnIndex, &r.prompt, &r.tool, &r.parameters,
		&r.output, &r.cliKind, &r.cliCode, &r.verdict, &r.policyRule, &r.policyParam, &r.raw, &r.exact)
}

// count finds out what the record counts.
func (r *recordRow) count() {
	if r.raw == nil || r.kind != kindTurn && !r.isModelTurn() {
		return
	}
	if c, ok := usage.Read(r.raw); ok {
		r.counts = &c
	}
}

func (r *recordRow) isModelTurn() bool {
	return r.unknownKind != nil && *r.unknownKind == usage.ModelTurn
}

// putUsage writes what the record counts, beside the record with this id.
func (r *recordRow) putUsage(tx *db.Tx, scope int64, run RunRef, id int64) error {
	if r.counts == nil {
		return nil
	}
	account, at := usage.Turn, r.recordedAt
	if r.isModelTurn() {
		account = usage.ModelTurn
		if at == nil {
			at = usage.RecordedAt(r.raw)
		}
	}
	return usage.Put(tx, usage.Record{
		Scope: scope, RunID: run.RunID, AgentID: run.AgentID, Run: id >> 24, Account: account,
		Sequence: id & maxSequence, RecordedAt: at,
	}, *r.counts)
}

// size returns how many bytes the texts and JSON of a row take, which it adds to run_records.bytes.
func (r *recordRow) size() int {
	n := len(r.parameters) + len(r.output) + len(r.raw)
	for _, s := range []*string{r.unknownKind, r.prompt, r.tool, r.policyRule, r.policyParam} {
		if s != nil {
			n += len(*s)
		}
	}
	return n
}

// rowOf returns the row for a record that came through the API. It returns an error for a record
// that the original could not read back.
//
// The columns of a turn hold what the caller passed. rowOf decides what an export writes: the exact
// line if the record came from one and still equals it, else the original's encoding of the record.
// The export encodes it.
func rowOf(r Record) (recordRow, error) {
	if size := sizeOf(r); size > maxRecord {
		return recordRow{}, fmt.Errorf("it is %d bytes long; at most %d are possible", size, maxRecord)
	}
	if err := validate(r); err != nil {
		return recordRow{}, err
	}
	row := newRow(r)
	from := r.source()
	switch {
	case from.Line != nil && stillSays(r, from.Line):
		row.raw, row.exact = from.Line, true
	case row.kind == kindTurn && columnsHold(r):
		row.exact = from.Exact && oneLine(row.parameters) && oneLine(row.output)
	default:
		row.raw = appendLine(nil, r, verbatim)
		row.exact = from.Exact && oneLine(row.raw)
	}
	return row, nil
}

// maxRecord is the size, in bytes, that surely fits into a row even if both its columns and the
// line are stored. A row is limited to 1,000,000,000 bytes (sqlite.org/limits.html).
const maxRecord = 400_000_000

// sizeOf returns how many bytes the large parts of a record take.
func sizeOf(r Record) int {
	switch r := r.(type) {
	case Started:
		return len(r.Intent)
	case Unknown:
		return len(r.Raw)
	case Ended:
		if o := r.Termination.Outcome; o != nil {
			n := len(o.Summary)
			for _, e := range o.Evidence {
				n += len(e.Description) + len(e.Data)
			}
			return n
		}
	case Turn:
		n := len(r.Parameters) + len(r.Output)
		if r.Prompt != nil {
			n += len(*r.Prompt)
		}
		return n
	}
	return 0
}

func oneLine(text []byte) bool { return bytes.IndexByte(text, '\n') < 0 }

// rowOfLine returns the row for an imported line.
func rowOfLine(line parsedLine) recordRow {
	row := recordRow{kind: kindOpaque}
	if line.record != nil {
		row = newRow(line.record)
	}
	row.raw, row.exact = line.raw(), true
	if row.raw == nil && row.kind != kindTurn {
		row.raw = line.given
	}
	if row.raw == nil && row.kind == kindOpaque {
		row.raw = []byte{} // a blank line of no bytes
	}
	return row
}

func newRow(r Record) recordRow {
	switch r := r.(type) {
	case Started:
		return recordRow{kind: kindStarted}
	case Ended:
		return recordRow{kind: kindEnded}
	case Unknown:
		return recordRow{kind: kindUnknown, unknownKind: &r.Kind}
	case Turn:
		index, verdict := columnIndex(r.Index), r.VerifierVerdict.String()
		row := recordRow{kind: kindTurn, turnIndex: &index, prompt: r.Prompt, tool: r.Tool, verdict: &verdict}
		if !nothing(r.Parameters) {
			row.parameters = r.Parameters
		}
		if !nothing(r.Output) {
			row.output = r.Output
		}
		if o := r.CliOutcome; o != nil {
			row.cliKind = &o.Kind
			if o.Kind == CliExited {
				row.cliCode = &o.Code
			}
		}
		if p := r.PolicyRejected; p != nil {
			row.policyRule, row.policyParam = &p.Rule, p.Param
		}
		return row
	}
	return recordRow{}
}

// Later reports whether the record is of a later version.
func (r *recordRow) Later() bool { return r.kind == kindUnknown }

// Record returns the record of the row; nil for an opaque line.
func (r *recordRow) Record() (Record, error) {
	switch {
	case r.kind == kindOpaque:
		return nil, nil
	case r.kind == kindTurn && r.raw == nil:
		return r.turn()
	case r.kind == kindUnknown && !r.exact:
		return Unknown{Kind: *r.unknownKind, Raw: r.raw}, nil
	}
	var record Record
	var err error
	if r.exact {
		line := readLine(r.raw)
		record, err = line.record, line.err
	} else {
		record, err = decodeFrom(r.raw, nil)
	}
	if record == nil {
		return nil, fmt.Errorf("%w: a %s record can't be read: %w", db.ErrCorrupt, r.kind, err)
	}
	return record, nil
}

func (r *recordRow) turn() (Record, error) {
	t := Turn{Prompt: r.prompt, Tool: r.tool, Parameters: r.parameters, Output: r.output}
	if r.turnIndex == nil || r.verdict == nil {
		return nil, fmt.Errorf("%w: a turn lacks its index or its verdict", db.ErrCorrupt)
	}
	t.Index = uint64(*r.turnIndex)
	var err error
	if t.VerifierVerdict, err = parseVerdict(*r.verdict); err != nil {
		return nil, fmt.Errorf("%w: %w", db.ErrCorrupt, err)
	}
	if r.cliKind != nil {
		t.CliOutcome = &CliOutcome{Kind: *r.cliKind}
		if r.cliCode != nil {
			t.CliOutcome.Code = *r.cliCode
		}
	}
	if r.policyRule != nil {
		t.PolicyRejected = &PolicyRejection{Rule: *r.policyRule, Param: r.policyParam}
	}
	t.from.Exact = r.exact
	return t, nil
}

// Line returns what an export writes for the row, without a line feed.
func (r *recordRow) Line() ([]byte, error) {
	if r.raw != nil && r.exact {
		return r.raw, nil
	}
	record, err := r.Record()
	if err != nil {
		return nil, err
	}
	if r.exact {
		return appendLine(nil, record, verbatim), nil
	}
	whole := true
	line := appendLine(nil, record, func(dst, raw []byte) []byte {
		dst, ok := serdejson.AppendCanonical(dst, raw)
		whole = whole && ok
		return dst
	})
	if !whole {
		return nil, fmt.Errorf("%w: a turn's parameters or output are not JSON", db.ErrCorrupt)
	}
	return line, nil
}
