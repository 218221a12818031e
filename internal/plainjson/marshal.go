package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
)

// Marshal is json.Marshal, except that a number that JSON lacks, an infinity or NaN, is
// null: what went wrong with a measurement must not cost the rest of the result. The values
// in v must not contain themselves.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if isLacking(err) {
		b, err = json.Marshal(marked(v))
		b = bytes.ReplaceAll(b, markText, []byte("null"))
	}
	return b, err
}

// Encode writes v as Marshal has it, but for characters of HTML, which stay, and ends the
// line. With an indent it takes several.
func Encode(w io.Writer, v any, indent string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	b := text.Bytes()
	if isLacking(err) { // before anything was written
		err = e.Encode(marked(v))
		b = bytes.ReplaceAll(text.Bytes(), markText, []byte("null"))
	}
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// isLacking reports whether json met a number that it lacks.
func isLacking(err error) bool {
	_, lacking := errors.AsType[*json.UnsupportedValueError](err)
	return lacking
}

// mark stands for a number that JSON lacks until its text becomes null: nothing that is
// measured comes near it.
const mark = -1.2345678901234568e-300

var markText = []byte("-1.2345678901234568e-300")

// marked returns a copy of v with the mark for every number that JSON lacks.
func marked(v any) any {
	c := reflect.New(reflect.TypeFor[any]()).Elem()
	c.Set(reflect.ValueOf(v))
	setMarks(c)
	return c.Interface()
}

// setMarks puts the marks into v, and copies in the place of what v refers to. What marshals
// itself stays, and so do fields that json does not see, which cannot be set.
func setMarks(v reflect.Value) {
	if v.Type().Implements(reflect.TypeFor[json.Marshaler]()) && v.Kind() != reflect.Interface {
		return
	}
	switch v.Kind() {
	case reflect.Float64:
		if x := v.Float(); (math.IsNaN(x) || math.IsInf(x, 0)) && v.CanSet() {
			v.SetFloat(mark)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			setMarks(field)
		}
	case reflect.Array:
		for i := range v.Len() {
			setMarks(v.Index(i))
		}
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		if !v.IsNil() && v.CanSet() {
			v.Set(copied(v))
		}
	}
}

// copied returns a copy of what v refers to, with its marks.
func copied(v reflect.Value) reflect.Value {
	copyOf := func(v reflect.Value) reflect.Value {
		c := reflect.New(v.Type())
		c.Elem().Set(v)
		setMarks(c.Elem())
		return c
	}
	switch v.Kind() {
	case reflect.Pointer:
		return copyOf(v.Elem())
	case reflect.Interface:
		return copyOf(v.Elem()).Elem()
	case reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			c.Index(i).Set(copyOf(v.Index(i)).Elem())
		}
		return c
	}
	c := reflect.MakeMap(v.Type())
	for entry := v.MapRange(); entry.Next(); {
		c.SetMapIndex(entry.Key(), copyOf(entry.Value()).Elem())
	}
	return c
}
