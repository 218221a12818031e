// Package records reads the rows of data files one after another, whatever the size of
// the file: plain text, JSONL, JSON arrays, CSV and Parquet. A row is a Record, which says
// where in which file it stood; what its columns mean is for package format.
//
// A file that is broken or hostile costs memory in proportion to its size at most, and
// less where a row is limited to MaxBytes.
package records

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MaxBytes is the most that a row may take in its file. A longer document of a plain text
// file is cut instead.
const MaxBytes = 64 << 20

// Record is a row of a file.
type Record struct {
	Place Place
	// Text is the document, where the file is plain text. Fields is nil then.
	Text string
	// Fields are the row's columns as JSON. In CSV all are strings.
	Fields map[string]json.RawMessage
	// Broken says of columns that are null here why they could not be read. The others can be.
	Broken map[string]error
}

// Columns returns the names of the record's columns, sorted.
func (r Record) Columns() []string { return slices.Sorted(maps.Keys(r.Fields)) }

// Place is where a row stands. Numbers start at 1; 0 is none.
type Place struct {
	File         string
	Line, Column int
	Row          int // where the format has no lines, or a row may have several
}

// String returns the place as compilers print it: file:line:column, and the row.
func (p Place) String() string {
	s := p.File
	if p.Line > 0 {
		s += fmt.Sprintf(":%d", p.Line)
	}
	if p.Column > 0 {
		s += fmt.Sprintf(":%d", p.Column)
	}
	if p.Row > 0 {
		s += fmt.Sprintf(": row %d", p.Row)
	}
	return s
}

// Error is a row that is not as it should be. The rows after it can be read.
type Error struct {
	Place Place
	Err   error
}

// Error implements error.
func (e *Error) Error() string { return e.Place.String() + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// reader yields the records of an open file.
type reader func(f *os.File, path string, yield func(Record, error) bool) error

// extensions are the files that a folder's data is read from. Any other file is plain text
// if it is named itself.
var extensions = map[string]reader{
	".txt":     readText,
	".jsonl":   readJSONL,
	".ndjson":  readJSONL,
	".json":    readJSON,
	".csv":     readCSV,
	".parquet": readParquet,
}

// Known reports whether a file's name is that of data.
func Known(name string) bool {
	return extensions[extension(name)] != nil && filepath.Base(name) != "dataset_info.json"
}

// Extensions lists the extensions of data files, for messages.
func Extensions() string {
	return strings.Join(slices.Sorted(maps.Keys(extensions)), ", ")
}

func extension(name string) string { return strings.ToLower(filepath.Ext(name)) }

// Read yields the rows of a file in order. A row that is broken is an *Error, after which
// the next one follows; any other error, which names the file, is the last.
func Read(path string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer f.Close() // read only
		if isPointer(f) {
			yield(Record{}, fmt.Errorf("%s is a pointer of Git LFS and not the file itself: fetch that with git lfs pull",
				path))
			return
		}
		read := extensions[extension(path)]
		if read == nil {
			read = readText
		}
		if err := read(f, path, yield); err != nil {
			yield(Record{}, err)
		}
	}
}

// isPointer reports whether a file is what a clone without Git LFS has in place of it. A pipe is not looked at.
func isPointer(f *os.File) bool {
	var start [64]byte
	n, _ := f.ReadAt(start[:], 0)
	return strings.HasPrefix(string(start[:n]), "version https://git-lfs")
}
