// Package plainjson reads JSON as encoding/json does, and says what is wrong with a file in
// the words of its author: where, what is there and what should be. The errors of
// encoding/json name types of this program, which nobody who wrote a file knows.
package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strings"
)

// Unmarshal is json.Unmarshal with errors that Explain.
func Unmarshal(data []byte, into any) error { return Explain(data, into, json.Unmarshal(data, into)) }

// Explain returns what an error of encoding/json, met while data was read into a value, says
// to the author of data. Errors of other kinds, such as those of the value's own UnmarshalJSON,
// stay as they are.
func Explain(data []byte, into any, err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong):
		return errors.New(mismatch(wrong, into))
	case errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return errors.New(malformed(data, syntax))
	}
	if err != nil && strings.HasPrefix(err.Error(), unknownField) { // it has no type of its own
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return err
}

const unknownField = "json: unknown field "

// strangers are files that come where JSON should be, by how they begin.
var strangers = []struct{ begin, what string }{
	{"\xef\xbb\xbf", "it begins with a byte order mark: save it as UTF-8 without one"},
	{"\xff\xfe", "it is UTF-16: save it as UTF-8"},
	{"\xfe\xff", "it is UTF-16: save it as UTF-8"},
	{"version https://git-lfs", "it is a pointer of Git LFS and not the file itself: fetch that with git lfs pull"},
	{"<", "it is a web page and not JSON: download the file itself"},
}

// Stranger says what a file is that begins as data does and comes where another one should be, "" for others.
func Stranger(data []byte) string {
	for _, s := range strangers {
		if bytes.HasPrefix(data, []byte(s.begin)) {
			return s.what
		}
	}
	return ""
}

// malformed says what is wrong with a text that is no JSON. Without a syntax error it is that
// the text ends.
func malformed(data []byte, syntax *json.SyntaxError) string {
	if len(bytes.TrimSpace(data)) == 0 {
		return "it is empty, where JSON should be"
	}
	if what := Stranger(data); what != "" {
		return what
	}
	at := len(data) // one past the byte at fault
	if syntax != nil {
		at = min(int(syntax.Offset), len(data))
	}
	text := errorText(syntax)
	if strings.HasSuffix(text, "exceeded max depth") {
		return fmt.Sprintf("the JSON is nested too deep at %s", place(data[:at]))
	}
	if before, found := strings.CutPrefix(text, "invalid character "); found && at > 0 {
		what, _, _ := strings.Cut(before, " ")
		return fmt.Sprintf("no JSON at %s: unexpected %s", place(data[:at-1]), what)
	}
	return fmt.Sprintf("the JSON ends in the middle, at %s: a part of it is missing",
		place(bytes.TrimRight(data, " \t\r\n")))
}

func errorText(syntax *json.SyntaxError) string {
	if syntax == nil {
		return ""
	}
	return syntax.Error()
}

// place names the line and column after a text, or the column alone while it has one line.
func place(before []byte) string {
	line := bytes.Count(before, []byte("\n")) + 1
	column := len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:]))) + 1
	if line == 1 {
		return fmt.Sprintf("column %d", column)
	}
	return fmt.Sprintf("line %d, column %d", line, column)
}

// mismatch says that a value is of another kind than the program takes. It may be the
// field's own or, in a list, one of its items.
func mismatch(wrong *json.UnmarshalTypeError, into any) string {
	subject := ""
	if field := fieldOf(wrong.Field, into); field != "" {
		subject = "field " + field + ": "
	}
	return fmt.Sprintf("%swant %s, have %s", subject, want(wrong.Type)+limit(wrong), have(wrong.Value))
}

// fieldOf drops the names of embedded structs from a path, which are no part of the file.
func fieldOf(path string, into any) string {
	t := reflect.TypeOf(into)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	first, rest, more := strings.Cut(path, ".")
	if t == nil || t.Kind() != reflect.Struct || !more {
		return path
	}
	if f, ok := t.FieldByName(first); ok && f.Anonymous {
		return fieldOf(rest, reflect.New(f.Type).Interface())
	}
	return path
}

// have names a value as encoding/json describes it: its kind, or a number with its digits.
func have(value string) string {
	if digits, found := strings.CutPrefix(value, "number "); found {
		return digits
	}
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a " + value
}

// want names the values that fit a type.
func want(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return want(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an object"
}

// limit is how large a number may be, where it is of the right kind and too large.
func limit(wrong *json.UnmarshalTypeError) string {
	digits, isNumber := strings.CutPrefix(wrong.Value, "number ")
	_, isWhole := new(big.Int).SetString(digits, 10)
	kind, bits := wrong.Type.Kind(), 0
	if kind >= reflect.Int && kind <= reflect.Float64 {
		bits = wrong.Type.Bits()
	}
	switch {
	case isNumber && kind >= reflect.Float32 && kind <= reflect.Float64:
		return fmt.Sprintf(" of %d bits", bits)
	case isWhole && kind >= reflect.Int && kind <= reflect.Int64:
		return fmt.Sprintf(" of at most %d", uint64(1)<<(bits-1)-1)
	case isWhole && kind >= reflect.Uint && kind <= reflect.Uint64:
		return fmt.Sprintf(" of at most %d", ^uint64(0)>>(64-bits))
	}
	return ""
}
