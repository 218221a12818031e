package records

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// oneFile returns what writes texts to a file, one after the other: folders for each would take longer.
func oneFile(f *testing.F, name string) func(t *testing.T, text string) string {
	path := file(f, name, "")
	return func(t *testing.T, text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// A line must be read as encoding/json reads it, or be refused; never half.
func FuzzJSONL(f *testing.F) {
	path := oneFile(f, "a.jsonl")
	f.Add("{\"text\":\"one\"}\n\n{\"text\":\"\\ud83d\\ude00\",\"n\":1e999}\r\n")
	f.Add(`{"text":null}`)
	f.Add("null\n[]\n{}\n\xff{}")
	f.Fuzz(func(t *testing.T, text string) {
		rows, bad, err := all(t, path(t, text))
		if err != nil {
			return // binary
		}
		lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
		last := 0
		for _, r := range rows {
			if r.Place.Line <= last || r.Place.Line > len(lines) {
				t.Fatalf("line %d after line %d of %d", r.Place.Line, last, len(lines))
			}
			last = r.Place.Line
			same(t, []byte(r.Fields), []byte(lines[last-1]))
		}
		full := 0
		for _, line := range lines {
			if len(bytes.TrimSpace([]byte(line))) > 0 {
				full++
			}
		}
		if len(rows)+len(bad) != full {
			t.Fatalf("%d rows and %d bad ones of %d lines", len(rows), len(bad), full)
		}
	})
}

// same fails unless both are the same JSON value.
func same(t *testing.T, got, want []byte) {
	t.Helper()
	var a, b any
	if err := errors.Join(json.Unmarshal(got, &a), json.Unmarshal(want, &b)); err != nil {
		// Numbers that no float64 holds are nobody's business here.
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return
		}
		t.Fatal(err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if !bytes.Equal(x, y) {
		t.Fatalf("got %s, want %s", x, y)
	}
}

// A file that is an array of objects to encoding/json has all of them here; any other has
// an error somewhere.
func FuzzJSONArray(f *testing.F) {
	path := oneFile(f, "a.json")
	f.Add("[{\"a\":\"],[\\\"\"},\n {\"a\":[{},2]}]")
	f.Add("[{},]")
	f.Add("[[[[[")
	f.Add(" [ ] x")
	f.Fuzz(func(t *testing.T, text string) {
		text = "[" + text
		rows, bad, err := all(t, path(t, text))
		var want []map[string]json.RawMessage
		isArray := json.Unmarshal([]byte(text), &want) == nil
		for _, w := range want {
			isArray = isArray && w != nil
		}
		if isArray && bytes.IndexByte([]byte(text), 0) < 0 && json.Valid([]byte(strings.ToValidUTF8(text, ""))) &&
			strings.ToValidUTF8(text, "") == text {
			if err != nil || bad != nil || len(rows) != len(want) {
				t.Fatalf("%d rows, bad %q, error %v; want %d", len(rows), bad, err, len(want))
			}
			for i, r := range rows {
				fields, marshalErr := json.Marshal(want[i])
				if marshalErr != nil {
					t.Fatal(marshalErr)
				}
				same(t, []byte(r.Fields), fields)
			}
			return
		}
		if !isArray && err == nil && bad == nil {
			t.Fatalf("%q is read as %d rows", text, len(rows))
		}
	})
}

// A row has the cells that encoding/csv gives it, under the names of the header.
func FuzzCSV(f *testing.F) {
	path := oneFile(f, "a.csv")
	f.Add("q,a\nx,\"1,\n\"\"2\"\"\"\n")
	f.Add("q,a\n1\n\"")
	f.Add("a\n\xe4\n\n1")
	f.Fuzz(func(t *testing.T, text string) {
		rows, bad, err := all(t, path(t, text))
		c := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
		c.FieldsPerRecord = -1
		cells, csvErr := c.ReadAll()
		if csvErr != nil && err == nil {
			t.Fatalf("%v is not reported", csvErr)
		}
		if err != nil {
			return
		}
		if len(rows)+len(bad) != max(len(cells)-1, 0) {
			t.Fatalf("%d rows and %d bad ones of %d", len(rows), len(bad), len(cells))
		}
		if bad != nil {
			return
		}
		for i, r := range rows {
			var got map[string]string
			if err := json.Unmarshal([]byte(r.Fields), &got); err != nil {
				t.Fatal(err)
			}
			for k, name := range cells[0] {
				if got[name] != cells[i+1][k] {
					t.Fatalf("row %d: %q is %q, want %q", i, name, got[name], cells[i+1][k])
				}
			}
		}
	})
}

// Documents start where their place says, and hold no separator.
func FuzzText(f *testing.F) {
	path := oneFile(f, "a.txt")
	f.Add("one\n<|endoftext|>\r\n\n two \n")
	f.Add("<|endoftext|>")
	f.Add("<|endoftext|>\n\r0")
	f.Fuzz(func(t *testing.T, text string) {
		rows, bad, err := all(t, path(t, text))
		if bad != nil {
			t.Fatalf("bad rows %q of a text", bad)
		}
		if err != nil {
			return
		}
		lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
		for _, d := range rows {
			first, _, _ := strings.Cut(d.Text, "\n")
			line := lines[d.Place.Line-1]
			if strings.TrimSpace(d.Text) == "" || !strings.HasPrefix(strings.TrimLeft(line, "\r"),
				strings.TrimLeft(first, "\r")) {
				t.Fatalf("document %q does not start on line %d, %q", d.Text, d.Place.Line, line)
			}
			if strings.Contains(d.Text, "\n"+separator+"\n") {
				t.Fatal("a separator line is part of a document")
			}
		}
	})
}
