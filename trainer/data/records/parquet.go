package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// readParquet reads the rows of a Parquet file. Lists and structs become JSON arrays and
// objects, and numbers that are not finite null.
func readParquet(f *os.File, path string, yield func(Record, error) bool) error {
	rows, err := openParquet(f)
	if err != nil {
		return fmt.Errorf("%s: not a Parquet file that can be read: %w", path, err)
	}
	defer rows.Close()
	for row := 1; ; row++ {
		at := Place{File: path, Row: row}
		values, err := rows.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%v: %w", at, err)
		}
		r := Record{Place: at, Fields: map[string]json.RawMessage{}, Broken: map[string]error{}}
		for name, v := range values {
			if r.Fields[name], err = marshal(v); err != nil { // such as an image, or another binary column
				r.Fields[name], r.Broken[name] = json.RawMessage("null"), err
			}
		}
		if !yield(r, nil) {
			return nil
		}
	}
}

// parquetRows reads one row after another.
type parquetRows struct {
	*parquet.GenericReader[map[string]any]
	buffer []map[string]any
}

func openParquet(f *os.File) (rows *parquetRows, err error) {
	defer recoverTo(&err)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	return &parquetRows{parquet.NewGenericReader[map[string]any](file, file.Schema()), make([]map[string]any, 1)}, nil
}

func (p *parquetRows) next() (row map[string]any, err error) {
	defer recoverTo(&err)
	p.buffer[0] = map[string]any{}
	n, err := p.Read(p.buffer)
	if n == 1 {
		return p.buffer[0], nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// recoverTo turns a panic into an error: the library has them for some broken files.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file is broken: %v", p)
	}
}

var errNotUTF8 = errors.New("invalid UTF-8")

// marshal returns a value as JSON. Bytes are text, since writers differ in whether they
// call them so.
func marshal(v any) (json.RawMessage, error) {
	v, err := asText(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// asText returns v with bytes as strings, all of them checked, and without numbers that JSON does not have.
func asText(v any) (any, error) {
	switch v := v.(type) {
	case float32:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, nil
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil
		}
	case []byte:
		return asText(string(v))
	case string:
		if !utf8.ValidString(v) {
			return nil, errNotUTF8
		}
	case []any:
		for i := range v {
			var err error
			if v[i], err = asText(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range v {
			var err error
			if v[name], err = asText(v[name]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
