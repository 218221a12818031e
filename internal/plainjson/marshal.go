package plainjson

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
)

// Marshal is json.Marshal, except that a number that JSON lacks, an infinity or NaN, is
// null: what went wrong with a measurement must not cost the rest of the result. The types
// in v must not contain themselves.
func Marshal(v any) (b []byte, err error) {
	err = lenient(v, func(v any) error { b, err = json.Marshal(v); return err })
	return b, err
}

// Encode writes v as Marshal has it, but for characters of HTML, which stay, and ends the
// line. With an indent it takes several.
func Encode(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	return lenient(v, e.Encode)
}

// lenient writes v, or v with numbers that can be null if it has one that JSON lacks.
func lenient(v any, write func(any) error) error {
	err := write(v)
	var lacking *json.UnsupportedValueError
	if errors.As(err, &lacking) {
		err = write(nulled(reflect.ValueOf(v)).Interface())
	}
	return err
}

// number is a float64 with a null.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// numbered returns t with number in the place of float64. What marshals itself stays.
func numbered(t reflect.Type) reflect.Type {
	if t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return t
	}
	switch t.Kind() {
	case reflect.Float64:
		return reflect.TypeFor[number]()
	case reflect.Pointer:
		return reflect.PointerTo(numbered(t.Elem()))
	case reflect.Slice:
		return reflect.SliceOf(numbered(t.Elem()))
	case reflect.Array:
		return reflect.ArrayOf(t.Len(), numbered(t.Elem()))
	case reflect.Map:
		return reflect.MapOf(t.Key(), numbered(t.Elem()))
	case reflect.Struct:
		var fields []reflect.StructField
		for _, f := range visible(t) {
			fields = append(fields, reflect.StructField{Name: f.Name, Type: numbered(f.Type), Tag: f.Tag})
		}
		return reflect.StructOf(fields)
	}
	return t
}

// visible returns the fields that json.Marshal sees: those of embedded structs are among
// them, unless there is one of the same name further out.
func visible(t reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	add := func(f reflect.StructField) {
		i := slices.IndexFunc(fields, func(other reflect.StructField) bool { return other.Name == f.Name })
		switch {
		case i < 0:
			fields = append(fields, f)
		case len(f.Index) < len(fields[i].Index):
			fields[i] = f
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case f.Anonymous && f.Tag.Get("json") == "" && embedded.Kind() == reflect.Struct:
			for _, promoted := range visible(embedded) {
				promoted.Index = append([]int{i}, promoted.Index...)
				add(promoted)
			}
		case f.IsExported():
			add(f)
		}
	}
	return fields
}

// nulled copies v into a value of its numbered type.
func nulled(v reflect.Value) reflect.Value {
	t := numbered(v.Type())
	if t == v.Type() && v.Kind() != reflect.Interface {
		return v
	}
	out := reflect.New(t).Elem()
	switch v.Kind() {
	case reflect.Float64:
		out.SetFloat(v.Float())
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(nulled(v.Elem()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(t.Elem()))
			out.Elem().Set(nulled(v.Elem()))
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && !v.IsNil() {
			out.Set(reflect.MakeSlice(t, v.Len(), v.Len()))
		}
		for i := range v.Len() {
			out.Index(i).Set(nulled(v.Index(i)))
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMap(t))
		}
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), nulled(it.Value()))
		}
	case reflect.Struct:
		for i, f := range visible(v.Type()) {
			if field, err := v.FieldByIndexErr(f.Index); err == nil { // else of a nil pointer that is embedded
				out.Field(i).Set(nulled(field))
			}
		}
	}
	return out
}
