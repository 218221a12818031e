package records

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/internal/testdata"
)

// file writes a file and returns its path.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// row is a record, its place without the file, and its fields in one string.
type row struct {
	Place  Place
	Text   string
	Fields string
}

// all reads a file. It stops at the first error that is not of one row.
func all(t testing.TB, path string) (rows []row, bad []string, err error) {
	t.Helper()
	for r, err := range Read(path) {
		if _, ok := errors.AsType[*Error](err); ok {
			bad = append(bad, strings.TrimPrefix(err.Error(), path))
			continue
		}
		if err != nil {
			return rows, bad, err
		}
		fields := ""
		if r.Fields != nil {
			text, err := json.Marshal(r.Fields)
			if err != nil {
				t.Fatal(err)
			}
			fields = string(text)
		}
		if r.Place.File != path {
			t.Errorf("a row of %s says it is of %s", path, r.Place.File)
		}
		r.Place.File = ""
		rows = append(rows, row{r.Place, r.Text, fields})
	}
	return rows, bad, nil
}

func text(line int, s string) row     { return row{Place: Place{Line: line}, Text: s} }
func fieldsAt(line int, s string) row { return row{Place: Place{Line: line}, Fields: s} }
func element(line, n int, s string) row {
	return row{Place: Place{Line: line, Row: n}, Fields: s}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       []row
	}{
		"plain text is one document, unchanged": {"a.txt", "\n one \ntwo\n", []row{text(1, "\n one \ntwo\n")}},
		"any extension is plain text":           {"a.md", `{"text":"x"}`, []row{text(1, `{"text":"x"}`)}},
		"byte order mark is ignored":            {"a.txt", "\ufeffone", []row{text(1, "one")}},
		"separator lines split": {"a.txt", "one\nmore\n<|endoftext|>\n\n two\n\n<|endoftext|>\nthree",
			[]row{text(1, "one\nmore"), text(5, " two"), text(8, "three")}},
		"separators need not be in between": {"a.txt",
			"<|endoftext|>\none\n<|endoftext|>\n<|endoftext|>\n \n<|endoftext|>\n",
			[]row{text(2, "one")}},
		"separators with Windows line ends": {"a.txt", "one\r\n<|endoftext|>\r\ntwo\r\n",
			[]row{text(1, "one"), text(3, "two")}},
		"separator inside a line is text": {"a.txt", "one<|endoftext|>two", []row{text(1, "one<|endoftext|>two")}},
		"blank text":                      {"a.txt", " \n\n", nil},
		"JSONL: an object a line": {"a.jsonl", "{\"text\":\"one\\n\"}\r\n\n \t\n{\"id\":[7],\"text\":\"zw\\u00f6lf\"}",
			[]row{fieldsAt(1, `{"text":"one\n"}`), fieldsAt(4, `{"id":[7],"text":"zw\u00f6lf"}`)}},
		"JSONL in capitals, with a byte order mark": {"A.JSONL", "\ufeff{\"a\":null}", []row{fieldsAt(1, `{"a":null}`)}},
		"JSON: an array": {"a.json", "[\n{\"a\": \"],[\\\"\"},\n {\"a\":\n [{}, 2]} ]\n",
			[]row{element(2, 1, `{"a":"],[\""}`), element(3, 2, `{"a":[{},2]}`)}},
		"JSON: an empty array": {"a.json", " [ ]", nil},
		"JSON: an empty file":  {"a.json", " \n", nil},
		"JSON: objects a line": {"a.json", "\n{\"a\":1}\n{\"a\":2}\n",
			[]row{fieldsAt(2, `{"a":1}`), fieldsAt(3, `{"a":2}`)}},
		"CSV: a header and rows": {"a.csv", "\ufeffq,a\nx,\"1,\n\"\"2\"\"\"\n\n,\r\n",
			[]row{fieldsAt(2, `{"a":"1,\n\"2\"","q":"x"}`), fieldsAt(5, `{"a":"","q":""}`)}},
		"CSV: a header only": {"a.csv", "q,a\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, bad, err := all(t, file(t, c.file, c.text))
			if err != nil || bad != nil {
				t.Fatalf("%q, %v", bad, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is wrong with a row does not stop the rows after it.
func TestABadRowIsNamedAndTheNextIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		bad        string // how the only bad row is named
		want       []row
	}{
		"JSONL: not JSON": {"a.jsonl", "{\"a\":1}\n\nhello\n{}",
			`:3: want a JSON object such as {"text": "..."}: no JSON at column 1: unexpected 'h'`,
			[]row{fieldsAt(1, `{"a":1}`), fieldsAt(4, "{}")}},
		"JSONL: unfinished":            {"a.jsonl", "{\"a", ":1: want a JSON object", nil},
		"JSONL: two objects on a line": {"a.jsonl", "{}{}\n", ":1: want a JSON object", nil},
		"JSONL: an array": {"a.jsonl", `[{"a":1}]`, `:1: want a JSON object such as {"text": "..."}: ` +
			"want an object, have a list; want one row a line; a JSON array of rows has a name that ends in .json", nil},
		"JSONL: null": {"a.jsonl", "null", ":1: want a JSON object", nil},
		"JSONL: invalid UTF-8": {"a.jsonl", "{\"a\":\"a\"}\n{\"a\":\"\xe4\"}", ":2:7: invalid UTF-8 (byte 0xe4)",
			[]row{fieldsAt(1, `{"a":"a"}`)}},
		"JSONL: half a character": {"a.jsonl", "{\"a\":\"\\ud83d\"}\n{\"a\":\"\\ud83d\\ude00\"}",
			":1: half of a surrogate pair", []row{fieldsAt(2, "{\"a\":\"\\ud83d\\ude00\"}")}},
		"JSON: the first line of an object": {"a.json", "{\n", `:1: want a JSON object such as {"text": "..."}: the JSON ` +
			"ends in the middle, at column 2: a part of it is missing; want a JSON array of rows, or one row a line", nil},
		"JSONL: too deep": {"a.jsonl", strings.Repeat("[", 1e6), ":1: want a JSON object", nil},
		"JSON: an element": {"a.json", "[{},\n{\"a\":x},\n{}]", ":2: row 2: want a JSON object",
			[]row{element(1, 1, "{}"), element(3, 3, "{}")}},
		"JSON: a number":         {"a.json", "[1]", ":1: row 1: want a JSON object", nil},
		"JSON: a comma too many": {"a.json", "[{},]", ":1: row 2: want a JSON object", []row{element(1, 1, "{}")}},
		"JSON: invalid UTF-8":    {"a.json", "[{\"a\":\n\"\xe4\"}]", ":2:2: invalid UTF-8", nil},
		"CSV: too few cells": {"a.csv", "q,a\n1\n2,3\n", ":2: 1 cells, but the header has 2",
			[]row{fieldsAt(3, `{"a":"3","q":"2"}`)}},
		"CSV: invalid UTF-8": {"a.csv", "q\n\xe4\n", `:2: column "q": invalid UTF-8`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, bad, err := all(t, file(t, c.file, c.text))
			if err != nil || len(bad) != 1 || !strings.HasPrefix(bad[0], c.bad) {
				t.Fatalf("bad rows %q, %v; want %q", bad, err, c.bad)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What makes the rest of a file unreadable is the last that is said of it.
func TestABrokenFileEndsWithAnErrorThatNamesThePlace(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       string // after the path
		rows       int    // before it
	}{
		"invalid UTF-8": {"a.txt", "one\nt\xc3\xa9\xffo",
			":2:4: invalid UTF-8 (byte 0xff); convert the file to UTF-8", 0},
		"cut-off UTF-8": {"a.txt", "\xc3", ":1:1: invalid UTF-8 (byte 0xc3)", 0},
		"UTF-16": {"a.txt", "\xff\xfea\x00",
			":1:1: invalid UTF-8 (byte 0xff); convert the file to UTF-8", 0},
		"Parquet by another name": {"a.txt", "PAR1 and so on PAR1", " is binary", 0},
		"gzip": {"a.jsonl", "\x1f\x8b\x08 and so on",
			" is compressed; unpack it first, with gunzip", 0},
		"zstd": {"a.txt", "\x28\xb5\x2f\xfd and so on",
			" is compressed; unpack it first, with unzstd", 0},
		"zero bytes":                 {"a.bin", "ELF\x00", " is binary", 0},
		"not Parquet":                {"a.parquet", "PAR1", ": not a Parquet file", 0},
		"JSON: cut off":              {"a.json", "[{},\n{\"a\": [", ":2: row 2: the file ends inside this row", 1},
		"JSON: cut off after a row":  {"a.json", "[{}\n", ":1: row 1: the file ends inside this row", 0},
		"JSON: text after the array": {"a.json", "[{}]\n\n[{}]", ":3: '[' after the end of the array", 1},
		"CSV: a quote left open":     {"a.csv", "q,a\n1,2\n3,\"4\n5,6\n", ":3: CSV row", 1},
		"CSV: a stray quote":         {"a.csv", "q,a\n1,2\n3,4\"5\n", ":3: CSV row: line 3, column 4: bare \"", 1},
		"CSV: no name":               {"a.csv", "q,\n1,2\n", ":1: column 2 has no name", 0},
		"CSV: lines of old Macs":     {"a.csv", "q,a\r1,2\r3,4\r", ":1: lines end with a carriage return alone", 0},
		"a pointer of Git LFS": {"a.parquet", "version https://git-lfs.github.com/spec/v1\noid",
			" is a pointer of Git LFS and not the file itself", 0},
		"a text that is a pointer": {"a.txt", "version https://git-lfs.github.com/spec/v1\noid",
			" is a pointer of Git LFS", 0},
		"CSV: a name twice": {"a.csv", "q,q\n1,2\n", `:1: two columns are called "q"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, c.file, c.text)
			rows, bad, err := all(t, path)
			if err == nil || !strings.HasPrefix(err.Error(), path+c.want) || bad != nil || len(rows) != c.rows {
				t.Errorf("%d rows, bad %q, error %v; want %d and %q", len(rows), bad, err, c.rows, c.want)
			}
		})
	}
	if _, _, err := all(t, filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

func TestReadingCanStopAnywhere(t *testing.T) {
	parquet := testdata.Shared(t, "data", "datasets", "parquet", "gsm8k_test.duckdb.snappy.parquet")
	for _, path := range []string{file(t, "a.txt", "a\n<|endoftext|>\nb"), file(t, "a.jsonl", "{}\n{}"),
		file(t, "a.json", "[{},{}]"), file(t, "a.csv", "a\nb\nc"), parquet} {
		n := 0
		for range Read(path) {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%s: %d rows", path, n)
		}
	}
}

// The same stories exist as separated text and as JSONL, made independently.
func TestTextAndJSONLHoldTheSameStories(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets", "tinystories")
	plain, _, err := all(t, filepath.Join(dir, "tinystories_2MiB.txt"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range Read(filepath.Join(dir, "tinystories_2MiB.text.jsonl")) {
		var story string
		if err == nil {
			err = json.Unmarshal(r.Fields["text"], &story)
		}
		if err != nil || strings.TrimSpace(plain[n].Text) != strings.TrimSpace(story) {
			t.Fatalf("story %d differs (%v):\n%q (line %d)\n%q", n, err, plain[n].Text, plain[n].Place.Line, story)
		}
		n++
	}
	if n != 2316 {
		t.Errorf("%d stories in the JSONL file, want 2316", n)
	}
}

// The questions of gsm8k exist as JSONL and as Parquet of six writers.
func TestParquetOfEveryWriterEqualsJSONL(t *testing.T) {
	sets := testdata.Shared(t, "data", "datasets")
	want := values(t, filepath.Join(sets, "gsm8k", "test.jsonl"))
	if len(want) != 1319 {
		t.Fatalf("%d rows, want 1319", len(want))
	}
	files, err := filepath.Glob(filepath.Join(sets, "parquet", "gsm8k_test.*.*.parquet"))
	if err != nil || len(files) != 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		if strings.Contains(path, "messages") {
			continue
		}
		if diff := cmp.Diff(want, values(t, path)); diff != "" {
			t.Errorf("%s: %.400s", path, diff)
		}
	}
	messages := values(t, filepath.Join(sets, "openai_messages", "gsm8k_test.messages.jsonl"))
	if diff := cmp.Diff(messages, values(t, filepath.Join(sets, "parquet",
		"gsm8k_test.messages.duckdb.snappy.parquet"))); diff != "" {
		t.Errorf("lists of structs: %.400s", diff)
	}
}

// values returns the fields of every row, decoded.
func values(t *testing.T, path string) []map[string]any {
	t.Helper()
	var rows []map[string]any
	for r, err := range Read(path) {
		if err != nil {
			t.Fatal(err)
		}
		row := map[string]any{}
		for name, raw := range r.Fields {
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatalf("%v: %v", r.Place, err)
			}
			row[name] = v
		}
		rows = append(rows, row)
	}
	return rows
}

func TestColumnsAreSorted(t *testing.T) {
	r := Record{Fields: map[string]json.RawMessage{"b": nil, "c": nil, "a": nil}}
	if got := r.Columns(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
}
