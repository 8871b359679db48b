package workers

import (
	"bytes"
	"slices"

	"selvedge/internal/serdejson"
)

// Files of later versions are recognised by their structure: schema_version stays 1 through several
// of them. Members that such a version leaves out are filled in, then the original's own reader
// continues. Members that it adds stay in the document unchanged.

// A reader reads the files of one runtime, as the original or a later version wrote them.
type reader struct {
	runtimeID RuntimeID // of the files; references of later versions don't name it
	// later is true if the runtime.json is, or would have been, a later version's: references in lines
	// may leave the runtime out, and workers may be numbers.
	later bool
	// alone is true if the folder holds only this runtime, as in later versions. Every reference then
	// means this runtime, whatever it names.
	alone bool
	// strict accepts only what the original wrote.
	strict bool
}

// A gap lists where a document of a later version and the original's differ. Members of members are
// written a.b.
type gap struct {
	missing []string // the original needs them; they are absent or unknown to it, and are filled in
	added   []string // the original doesn't know them
}

func (g gap) later() bool { return len(g.missing)+len(g.added) > 0 }

// runtime reads a runtime.json like readRuntimeSnapshot. The gap is empty if the original wrote it.
func (r reader) runtime(text []byte) (s runtimeSnapshot, g gap, wrong string, err error) {
	as, g := r.earlierRuntime(text)
	s, wrong, err = readRuntimeSnapshot(as)
	return s, g, wrong, err
}

// worker reads a worker.json like readWorkerSnapshot. The gap is empty if the original wrote it.
func (r reader) worker(text []byte) (s workerSnapshot, g gap, wrong string, err error) {
	s, wrong, err = readWorkerSnapshot(text)
	if err == nil && !r.foreign(s.WorkerRef) {
		if r.later {
			g.added = addedToWorker(text)
		}
		return s, g, wrong, nil
	}
	as, g := r.earlierWorker(text)
	s, wrong, err = readWorkerSnapshot(as)
	return s, g, wrong, err
}

// event reads a line of events.jsonl.
func (r reader) event(line []byte) (RuntimeEvent, error) {
	return readLine(r, eventJSON(), line, func(e *RuntimeEvent) *WorkerRef { return e.WorkerRef })
}

// entry reads a line of transcript.jsonl.
func (r reader) entry(line []byte) (TranscriptEntry, error) {
	return readLine(r, entryJSON(), line, func(e *TranscriptEntry) *WorkerRef { return &e.WorkerRef })
}

func readLine[T any](r reader, st *structure, line []byte, refOf func(*T) *WorkerRef) (T, error) {
	value, err := decode[T](st, line)
	if ref := refOf(&value); (r.later || r.alone) && (err != nil || ref != nil && r.foreign(*ref)) {
		return decode[T](st, r.withRef(st, line))
	}
	return value, err
}

// gapOf returns the gap of a line. It is empty if the original wrote the runtime.json.
func (r reader) gapOf(st *structure, line []byte) (g gap) {
	if r.later {
		if o := objectOf(st, line); o != nil {
			g = o.gap
		}
	}
	return g
}

func (r reader) foreign(ref WorkerRef) bool { return r.alone && ref.RuntimeID != r.runtimeID }

// earlierRuntime is a runtime.json as the original would have written it. Later versions are known
// by config_bundles, which they all write, or by a runtime that has its folder for itself and no
// name.
func (r reader) earlierRuntime(text []byte) ([]byte, gap) {
	o := objectOf(runtimeJSON(), text)
	if o == nil || r.strict ||
		!slices.Contains(o.gap.added, "config_bundles") && (!r.alone || o.has("runtime_id")) {
		return text, gap{}
	}
	o.replace("schema_version", "1")
	o.fill("runtime_id", string(serdejson.AppendQuoted(nil, string(r.runtimeID))))
	o.fill("limits", "{}")
	if limits := o.inner("limits", limitsJSON()); limits != nil {
		limits.fill("max_transcript_projection_items", "256")
		limits.fill("max_event_batch_items", "256")
		o.put("limits", limits)
	}
	for _, counter := range []string{"next_worker_sequence", "next_event_id", "next_diagnostic_id"} {
		o.fill(counter, "1")
	}
	if list := o.value("diagnostics"); len(list) > 0 && list[0] == '[' {
		var earlier [][]byte
		for _, d := range membersOf(list) {
			earlier = append(earlier, r.withRef(diagnosticJSON(), d.Value))
		}
		o.set("diagnostics", slices.Concat([]byte{'['}, bytes.Join(earlier, []byte{','}), []byte{']'}))
	}
	return o.text(), o.gap
}

// earlierWorker is a worker.json as the original would have written it. Later versions are known by
// a request that has no intent.
func (r reader) earlierWorker(text []byte) ([]byte, gap) {
	o := objectOf(workerJSON(), text)
	if o == nil {
		return text, gap{}
	}
	request := o.inner("request", requestJSON())
	if request == nil || request.has("intent") || r.strict {
		if !r.alone {
			return text, gap{}
		}
		return r.withRef(workerJSON(), text), gap{}
	}
	o.set("worker_ref", r.earlierRef(o.value("worker_ref")))
	o.set("worker_id", earlierID(o.value("worker_id")))
	o.replace("schema_version", "1")
	o.fillUnless("status", `"running"`, func(value []byte) bool {
		_, err := serdejson.Variant(value, []string{Running, Stopped, Cancelled})
		return err == nil
	})
	request.fill("intent", `{"kind":"assistant"}`)
	request.fillUnless("profile", `{"kind":"runtime_default"}`,
		func(value []byte) bool { _, err := decode[ProfileSelector](profileJSON(), value); return err == nil })
	if bundle := request.value("config_bundle"); bundle != nil {
		request.fillUnless("config_bundle", "null", func(value []byte) bool {
			_, err := decode[ConfigBundleRef](bundleJSON(), value)
			return value[0] == 'n' || err == nil
		})
	}
	o.put("request", request)
	o.fill("next_transcript_sequence", "1")
	o.fill("last_event_id", "0")
	return o.text(), o.gap
}

// addedToWorker names the members of a worker.json that the original doesn't know.
func addedToWorker(text []byte) []string {
	o := objectOf(workerJSON(), text)
	if o == nil {
		return nil
	}
	if request := o.inner("request", requestJSON()); request != nil {
		o.put("request", request)
	}
	return o.gap.added
}

// withRef is a value, or a line, with its member worker_ref as the original would have written it.
func (r reader) withRef(st *structure, text []byte) []byte {
	o := objectOf(st, text)
	if o == nil || !o.has("worker_ref") {
		return text
	}
	o.set("worker_ref", r.earlierRef(o.value("worker_ref")))
	return o.text()
}

func (r reader) earlierRef(text []byte) []byte {
	o := objectOf(refJSON(), text)
	if o == nil {
		return text
	}
	if r.alone || !o.has("runtime_id") {
		o.set("runtime_id", serdejson.AppendQuoted(nil, string(r.runtimeID)))
	}
	o.set("worker_id", earlierID(o.value("worker_id")))
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
	o := objectOf(requestJSON(), request)
	if o == nil || o.has("intent") {
		return request
	}
	o.set("intent", encode(WorkerIntent{}))
	return o.text()
}

// An object is a JSON object that is being edited. New members are put in front.
type object struct {
	members []serdejson.Member
	gap     gap
}

// objectOf returns nil if text is not one JSON object.
func objectOf(st *structure, text []byte) *object {
	if len(text) == 0 || st.check(text) != nil {
		return nil
	}
	text = trimBlanks(text)
	if text[0] != '{' {
		return nil
	}
	o := &object{members: membersOf(text)}
	for _, m := range o.members {
		if st.at(m.Key) < 0 {
			o.gap.added = append(o.gap.added, serdejson.Unquote(m.Key))
		}
	}
	return o
}

func (o *object) at(name string) int {
	return slices.IndexFunc(o.members, func(m serdejson.Member) bool { return serdejson.KeyIs(m.Key, name) })
}

func (o *object) has(name string) bool { return o.at(name) >= 0 }

// value returns nil if there is no such member.
func (o *object) value(name string) []byte {
	if i := o.at(name); i >= 0 {
		return o.members[i].Value
	}
	return nil
}

// set sets a member; an empty value changes nothing.
func (o *object) set(name string, value []byte) {
	switch i := o.at(name); {
	case len(value) == 0:
	case i >= 0:
		o.members[i].Value = value
	default:
		added := serdejson.Member{Key: serdejson.AppendQuoted(nil, name), Value: value}
		o.members = slices.Insert(o.members, 0, added)
	}
}

// replace sets an existing member.
func (o *object) replace(name, value string) {
	if o.has(name) {
		o.set(name, []byte(value))
	}
}

// fill sets a missing member, and notes it.
func (o *object) fill(name, value string) {
	o.fillUnless(name, value, func([]byte) bool { return true })
}

// fillUnless also sets a member whose value is not good.
func (o *object) fillUnless(name, value string, good func([]byte) bool) {
	if v := o.value(name); v == nil || !good(v) {
		o.gap.missing = append(o.gap.missing, name)
		o.set(name, []byte(value))
	}
}

// inner returns the object in a member, or nil.
func (o *object) inner(name string, st *structure) *object { return objectOf(st, o.value(name)) }

// put puts an object that inner returned back, with its gap.
func (o *object) put(name string, inner *object) {
	o.set(name, inner.text())
	for _, m := range inner.gap.missing {
		o.gap.missing = append(o.gap.missing, name+"."+m)
	}
	for _, m := range inner.gap.added {
		o.gap.added = append(o.gap.added, name+"."+m)
	}
}

func (o *object) text() []byte {
	var members [][]byte
	for _, m := range o.members {
		members = append(members, slices.Concat(m.Key, []byte{':'}, m.Value))
	}
	return slices.Concat([]byte{'{'}, bytes.Join(members, []byte{','}), []byte{'}'})
}
