package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"selvedge/checkpoints/internal/codec"
	"selvedge/internal/chrono"
)

// Decode reads a document. It refuses documents that no program of the store could read: those with
// a required member missing, a kind of stage or result of later versions, a repeated member, or 128
// levels and more.
func Decode(document []byte) (*PausedWorkflow, error) {
	text, err := codec.Plain(document)
	if err != nil {
		return nil, err
	}
	type plain PausedWorkflow // without UnmarshalJSON
	var read struct {
		plain
		CreatedAt string `json:"created_at"`
	}
	err = json.Unmarshal(text, &read)
	p := PausedWorkflow(read.plain)
	if err == nil {
		p.CreatedAt, p.createdAtText, err = chrono.Parse(read.CreatedAt)
	}
	if err != nil {
		return nil, fmt.Errorf("decode an accepted document: %w", err)
	}
	p.read = &reading{bytes.Clone(document), p}
	clone(reflect.ValueOf(&p.read.value).Elem())
	return &p, nil
}

// clone replaces what v refers to by copies, at all depths.
func clone(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				clone(field)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			to := reflect.New(v.Type().Elem())
			to.Elem().Set(v.Elem())
			v.Set(to)
			clone(to.Elem())
		}
	case reflect.Slice:
		if !v.IsNil() {
			to := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(to, v)
			v.Set(to)
			for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8; i++ {
				clone(v.Index(i))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			to := reflect.MakeMapWithSize(v.Type(), v.Len())
			for key, value := range v.Seq2() {
				item := reflect.New(value.Type()).Elem()
				item.Set(value)
				clone(item)
				to.SetMapIndex(key, item)
			}
			v.Set(to)
		}
	}
}
