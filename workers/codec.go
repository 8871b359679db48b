package workers

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"selvedge/internal/serdejson"
)

// Records are read and written as the old program's library does: its Rust structs have the same
// members in the same order.

var (
	requestJSON    = sync.OnceValue(structureFor[CreateWorkerRequest])
	inputJSON      = sync.OnceValue(structureFor[WorkerInput])
	profileJSON    = sync.OnceValue(structureFor[ProfileSelector])
	bundleJSON     = sync.OnceValue(structureFor[ConfigBundleRef])
	refJSON        = sync.OnceValue(structureFor[WorkerRef])
	limitsJSON     = sync.OnceValue(structureFor[RuntimeLimits])
	eventJSON      = sync.OnceValue(structureFor[RuntimeEvent])
	entryJSON      = sync.OnceValue(structureFor[TranscriptEntry])
	diagnosticJSON = sync.OnceValue(structureFor[RuntimeDiagnostic])
	anyJSON        *structure // the library reads some values as a whole first
)

func structureFor[T any]() *structure { return structureOf(reflect.TypeFor[T]()) }

// decode reads a whole text. The error is a *serdejson.DecodeError, as for all functions below.
func decode[T any](st *structure, text []byte) (T, error) {
	var value T
	if err := st.parse(text, reflect.ValueOf(&value).Elem()); err != nil {
		return *new(T), err
	}
	return value, nil
}

// into sets value if the text can be read.
func into[T any](st *structure, text []byte, value *T) error {
	read, err := decode[T](st, text)
	if err == nil {
		*value = read
	}
	return err
}

// asSerde turns what encoding/json writes into what the old program's library writes. It writes
// 0xff for bytes that are not UTF-8, so that a check for UTF-8 still finds them.
var asSerde = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029", `\ufffd`, "\xff")

// encode writes the members in order, without blanks, with the fewest escapes, and leaves out what
// is absent.
func encode(value any) []byte {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // only a func or a channel can't be encoded
	return []byte(asSerde.Replace(strings.TrimSuffix(text.String(), "\n")))
}

// A selfDecoder is a tagged enum in Rust: its kind determines its other members.
type selfDecoder interface{ decodeJSON(text []byte) error }

// A field is a field of a structure. For a list it describes the elements.
type field struct {
	shape
	index    int  // in the Go struct
	optional bool // left out when it is empty
	self     bool // it is a tagged enum
	words    []string
	number   string // the Rust type of a number
	largest  uint64
}

// structureOf derives a structure from a Go struct. The tag serde lists the words that a string may
// be, or names the Rust type of a number (default u64).
func structureOf(t reflect.Type) *structure {
	first := min(1, len(t.Name()))
	st := &structure{}
	st.Name = "struct " + strings.ToUpper(t.Name()[:first]) + t.Name()[first:]
	if t == reflect.TypeFor[ProfileSelector]() {
		st.Name = "adjacently tagged enum ProfileSelector"
	}
	for i := range t.NumField() {
		member := t.Field(i)
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		st.Names = append(st.Names, name)
		f := field{index: i, optional: options != ""}
		if !f.optional {
			st.Required = len(st.Names)
		}
		of, said := member.Type, member.Tag.Get("serde")
		if f.list = of.Kind() == reflect.Slice; f.list || of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		f.self = reflect.PointerTo(of).Implements(reflect.TypeFor[selfDecoder]())
		switch {
		case of == reflect.TypeFor[WorkerIntent]():
		case of.Kind() == reflect.Struct:
			f.of = structureOf(of)
		case of.Kind() == reflect.Uint32:
			f.number, f.largest = "u32", math.MaxUint32
		case of.Kind() == reflect.Uint64 && said != "":
			f.number, f.largest = said, math.MaxUint64
		case of.Kind() == reflect.Uint64:
			f.number, f.largest = "u64", math.MaxUint64
		case said != "":
			f.words = strings.Split(said, "|")
		}
		st.fields = append(st.fields, f)
	}
	return st
}

func (st *structure) parse(text []byte, v reflect.Value) error {
	if err := st.check(text); err != nil {
		return err
	}
	return st.decodeInto(trimBlanks(text), v)
}

// decodeInto reads a text that check has accepted.
func (st *structure) decodeInto(text []byte, v reflect.Value) error {
	if self, ok := reflect.TypeAssert[selfDecoder](v.Addr()); ok {
		return self.decodeJSON(text)
	}
	return st.set(st.Read(text), v)
}

// set sets the fields of a struct to the values of a text.
func (st *structure) set(values serdejson.Fields, v reflect.Value) error {
	for i := range st.fields {
		st.fields[i].set(&values, i, v.Field(st.fields[i].index))
	}
	return values.Err
}

func (f *field) set(values *serdejson.Fields, i int, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		if text := values.Given(i); text != nil {
			v.Set(reflect.New(v.Type().Elem()))
			values.Keep(f.decode(text, v.Elem()))
		}
	case f.number != "":
		v.SetUint(values.Uint(i, f.largest, f.number))
	case f.words != nil:
		v.SetString(f.words[values.Word(i, f.words, isNull)])
	case f.optional && values.Values[i] == nil:
	default:
		if text := values.Need(i); text != nil {
			values.Keep(f.decode(text, v))
		}
	}
}

func (f *field) decode(text []byte, v reflect.Value) error {
	switch {
	case v.Kind() == reflect.Slice:
		return f.decodeList(text, v)
	case f.self || v.Kind() == reflect.Struct:
		return f.of.decodeInto(text, v)
	}
	s, err := serdejson.String(text)
	v.SetString(s)
	return err
}

func (f *field) decodeList(text []byte, v reflect.Value) error {
	if text[0] != '[' {
		return serdejson.Errorf("invalid type: %s, expected a sequence", serdejson.Unexpected(text))
	}
	for i, m := range membersOf(text) {
		v.Grow(1)
		v.SetLen(i + 1)
		if err := f.decode(m.Value, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// variants are the members of each kind of intent, besides the kind.
var variants = sync.OnceValue(func() map[string]*structure {
	return map[string]*structure{
		intentAssistant: variantOf("Assistant", "purpose"),
		intentTask:      variantOf("Task", "objective"),
		intentRole:      variantOf("Role", "role", "purpose"),
	}
})

var intentKinds = []string{intentAssistant, intentTask, intentRole}

func variantOf(name string, members ...string) *structure {
	st := structureOf(reflect.TypeFor[WorkerIntent]())
	variant := &structure{Structure: serdejson.Structure{
		Name: "struct variant WorkerIntent::" + name, Names: members,
	}}
	for _, member := range members {
		f := st.fields[slices.Index(st.Names, member)]
		variant.fields = append(variant.fields, f)
		if !f.optional {
			variant.Required++
		}
	}
	return variant
}

func (i *WorkerIntent) decodeJSON(text []byte) error {
	tag, rest, err := serdejson.Tagged(text, "WorkerIntent", nil)
	if err != nil {
		return err
	}
	kind, err := serdejson.Variant(tag, intentKinds)
	if err != nil {
		return err
	}
	i.Kind = intentKinds[kind]
	variant := variants()[i.Kind]
	return variant.set(variant.Take(rest), reflect.ValueOf(i).Elem())
}

func (p *ProfileSelector) decodeJSON(text []byte) error {
	v, kinds := profileJSON().Read(text), profileJSON().fields[0].words
	p.Kind = kinds[v.Word(0, kinds, isNull)]
	if v.Err == nil && p.Kind != profileDefault {
		p.Value = v.Text(1)
	} else if value := v.Given(1); value != nil {
		v.Fail("invalid type: %s, expected unit", serdejson.Unexpected(value))
	}
	return v.Err
}

// decodeJSON also reads kinds that the old program does not know, except an empty one.
func (k *RuntimeEventKind) decodeJSON(text []byte) error {
	tag, rest, err := serdejson.Tagged(text, "RuntimeEventKind", nil)
	if err != nil {
		return err
	}
	if _, err := serdejson.Variant(tag, eventKinds); err != nil && (tag[0] != '"' || len(tag) == len(`""`)) {
		return err
	}
	*k = RuntimeEventKind(serdejson.Unquote(tag))
	return rest.Unit()
}
