package workers

import (
	"bytes"
	"slices"

	"selvedge/internal/serdejson"
)

// Files of later versions of the original. They are told by their structure: schema_version stays 1
// through several of them. What such a version leaves out is filled in, then the original's own
// reader reads on; what it adds stays in the document as it came.

// A Reader reads the files of one runtime, as the original or a later version wrote them.
type Reader struct {
	RuntimeID string // whose files they are; references of later versions don't say it
	// Later tells that the runtime.json was, or would have been, a later version's: references in
	// lines may leave the runtime out, and workers may be numbers.
	Later bool
	// Alone tells that the folder holds this one runtime, as in later versions: whatever runtime a
	// reference names, it means this one.
	Alone bool
}

// A Gap tells where a document of a later version and the original's differ. Members of members are
// written a.b.
type Gap struct {
	// that the original needs, and that are not there or say what it doesn't know: they are filled in
	Missing []string
	Added   []string // that the original doesn't know
}

// Later reports whether the document differs at all.
func (g Gap) Later() bool { return len(g.Missing)+len(g.Added) > 0 }

// Runtime reads a runtime.json like ReadRuntimeSnapshot. The gap is empty where the original wrote it.
func (r Reader) Runtime(text []byte) (s RuntimeSnapshot, g Gap, wrong string, err error) {
	as, g := r.earlierRuntime(text)
	s, wrong, err = ReadRuntimeSnapshot(as)
	return s, g, wrong, err
}

// Worker reads a worker.json like ReadWorkerSnapshot. The gap is empty where the original wrote it.
func (r Reader) Worker(text []byte) (s WorkerSnapshot, g Gap, wrong string, err error) {
	s, wrong, err = ReadWorkerSnapshot(text)
	if err == nil && !r.foreign(s.Worker) {
		if r.Later {
			g.Added = addedToWorker(text)
		}
		return s, g, wrong, nil
	}
	as, g := r.earlierWorker(text)
	s, wrong, err = ReadWorkerSnapshot(as)
	return s, g, wrong, err
}

// Event reads a line of events.jsonl like ReadEventLine.
func (r Reader) Event(line []byte) (e Event, wrong string, err error) {
	e, wrong, err = ReadEventLine(line)
	if (r.Later || r.Alone) && (err != nil || e.Worker != nil && r.foreign(*e.Worker)) {
		e, wrong, err = ReadEventLine(r.withRef(&eventStructure, line))
	}
	return e, wrong, err
}

// Entry reads a line of transcript.jsonl like ReadEntryLine.
func (r Reader) Entry(line []byte) (e Entry, err error) {
	e, err = ReadEntryLine(line)
	if (r.Later || r.Alone) && (err != nil || r.foreign(e.Worker)) {
		e, err = ReadEntryLine(r.withRef(&entryStructure, line))
	}
	return e, err
}

// EventGap tells what a line of events.jsonl has otherwise. It is empty where the original wrote
// the runtime.json.
func (r Reader) EventGap(line []byte) Gap { return r.gapOf(&eventStructure, line) }

// EntryGap is EventGap of a line of transcript.jsonl.
func (r Reader) EntryGap(line []byte) Gap { return r.gapOf(&entryStructure, line) }

func (r Reader) gapOf(st *structure, line []byte) (g Gap) {
	if r.Later {
		if o := objectOf(st, line); o != nil {
			g = o.gap
		}
	}
	return g
}

func (r Reader) foreign(ref Ref) bool { return r.Alone && ref.RuntimeID != r.RuntimeID }

// earlierRuntime is a runtime.json as the original would have written it. Later versions are known
// by config_bundles, which they all write, or by a runtime that has its folder for itself and no
// name.
func (r Reader) earlierRuntime(text []byte) ([]byte, Gap) {
	o := objectOf(&runtimeDocument, text)
	if o == nil || !slices.Contains(o.gap.Added, "config_bundles") && (!r.Alone || o.has("runtime_id")) {
		return text, Gap{}
	}
	if o.has("schema_version") {
		o.set("schema_version", "1")
	}
	o.fill("runtime_id", string(serdejson.AppendQuoted(nil, r.RuntimeID)))
	o.fill("limits", "{}")
	if limits := o.inner("limits", &limitsDocument); limits != nil {
		limits.fill("max_transcript_projection_items", "256")
		limits.fill("max_event_batch_items", "256")
		o.put("limits", limits)
	}
	for _, counter := range []string{"next_worker_sequence", "next_event_id", "next_diagnostic_id"} {
		o.fill(counter, "1")
	}
	if list := o.value("diagnostics"); len(list) > 0 && list[0] == '[' {
		diagnostics, _ := membersOf(list)
		o.set("diagnostics", string(appendList(nil, diagnostics, func(dst []byte, d member) []byte {
			return append(dst, r.withRef(&diagnosticStructure, d.value)...)
		})))
	}
	return o.text(), o.gap
}

// earlierWorker is a worker.json as the original would have written it. Later versions are known by
// a request that has no intent.
func (r Reader) earlierWorker(text []byte) ([]byte, Gap) {
	o := objectOf(&workerDocument, text)
	if o == nil {
		return text, Gap{}
	}
	request := o.inner("request", &requestStructure)
	if request == nil || request.has("intent") {
		if !r.Alone {
			return text, Gap{}
		}
		return r.withRef(&workerDocument, text), Gap{}
	}
	o.set("worker_ref", string(r.earlierRef(o.value("worker_ref"))))
	o.set("worker_id", string(earlierID(o.value("worker_id"))))
	if o.has("schema_version") {
		o.set("schema_version", "1")
	}
	o.fillUnless("status", `"running"`, func(value []byte) bool {
		_,
			err := variant(value, statusWords)
		return err == nil
	})
	request.fill("intent", `{"kind":"assistant"}`)
	request.fillUnless("profile", `{"kind":"runtime_default"}`,
		func(value []byte) bool { _, err := decodeProfile(value); return err == nil })
	if bundle := request.value("config_bundle"); bundle != nil {
		request.fillUnless("config_bundle", "null", func(value []byte) bool {
			f := bundleStructure.read(value)
			f.Text(0)
			return value[0] == 'n' || f.Err == nil
		})
	}
	o.put("request", request)
	o.fill("next_transcript_sequence", "1")
	o.fill("last_event_id", "0")
	return o.text(), o.gap
}

// addedToWorker names the members of a worker.json that the original doesn't know.
func addedToWorker(text []byte) []string {
	o := objectOf(&workerDocument, text)
	if o == nil {
		return nil
	}
	if request := o.inner("request", &requestStructure); request != nil {
		o.put("request", request)
	}
	return o.gap.Added
}

// withRef is a value, or a line, with its member worker_ref as the original would have written it.
func (r Reader) withRef(st *structure, text []byte) []byte {
	o := objectOf(st, text)
	if o == nil || !o.has("worker_ref") {
		return text
	}
	o.set("worker_ref", string(r.earlierRef(o.value("worker_ref"))))
	return o.text()
}

func (r Reader) earlierRef(text []byte) []byte {
	o := objectOf(&refStructure, text)
	if o == nil {
		return text
	}
	own := string(serdejson.AppendQuoted(nil, r.RuntimeID))
	if r.Alone || !o.has("runtime_id") {
		o.set("runtime_id", own)
	}
	o.set("worker_id", string(earlierID(o.value("worker_id"))))
	return o.text()
}

// earlierID is a number as a text.
func earlierID(text []byte) []byte {
	if len(text) > 0 && '0' <= text[0] && text[0] <= '9' {
		return slices.Concat([]byte{'"'}, text, []byte{'"'})
	}
	return text
}

// withIntent is a request in which the original finds an intent.
func withIntent(request []byte) []byte {
	o := objectOf(&requestStructure, request)
	if o == nil || o.has("intent") {
		return request
	}
	o.set("intent", `{"kind":"assistant"}`)
	return o.text()
}

// An object is a text whose members are about to be others. Those that it does not have yet are put in front.
type object struct {
	of      *structure
	members []member
	gap     Gap
}

// objectOf is nil where text is not one JSON object.
func objectOf(st *structure, text []byte) *object {
	if len(text) == 0 || st.check(text) != nil {
		return nil
	}
	text = trimBlanks(text)
	if text[0] != '{' {
		return nil
	}
	o := &object{of: st}
	o.members, _ = membersOf(text)
	for _, m := range o.members {
		if !slices.ContainsFunc(st.fields, func(name string) bool { return serdejson.KeyIs(m.key, name) }) {
			o.gap.Added = append(o.gap.Added, serdejson.Unquote(m.key))
		}
	}
	return o
}

func (o *object) at(name string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return serdejson.KeyIs(m.key, name) })
}

func (o *object) has(name string) bool { return o.at(name) >= 0 }

// value is nil where there is no such member.
func (o *object) value(name string) []byte {
	if i := o.at(name); i >= 0 {
		return o.members[i].value
	}
	return nil
}

// set gives a member another value; an empty one changes nothing.
func (o *object) set(name, value string) {
	switch i := o.at(name); {
	case value == "":
	case i >= 0:
		o.members[i].value = []byte(value)
	default:
		key := serdejson.AppendQuoted(nil, name)
		o.members = slices.Insert(o.members, 0, member{key: key, value: []byte(value)})
	}
}

// fill gives a missing member a value, and notes it.
func (o *object) fill(name, value string) {
	o.fillUnless(name, value, func([]byte) bool { return true })
}

// fillUnless also does where the member's value won't do.
func (o *object) fillUnless(name, value string, good func([]byte) bool) {
	if v := o.value(name); v == nil || !good(v) {
		o.gap.Missing = append(o.gap.Missing, name)
		o.set(name, value)
	}
}

// inner is the object in a member, or nil.
func (o *object) inner(name string, st *structure) *object { return objectOf(st, o.value(name)) }

// put puts an object back that inner gave, with what was noted about it.
func (o *object) put(name string, inner *object) {
	o.set(name, string(inner.text()))
	for _, m := range inner.gap.Missing {
		o.gap.Missing = append(o.gap.Missing, name+"."+m)
	}
	for _, m := range inner.gap.Added {
		o.gap.Added = append(o.gap.Added, name+"."+m)
	}
}

func (o *object) text() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o.members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m.key)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
