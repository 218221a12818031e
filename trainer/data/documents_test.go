package data

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed98097648/tune/internal/testdata"
)

// folder makes a folder with the given files and returns its path.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadDocuments(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       []Document
	}{
		"plain text is one document, unchanged": {"a.txt", "\n one \ntwo\n", []Document{{Text: "\n one \ntwo\n", Line: 1}}},
		"any extension is plain text":           {"a.md", `{"text":"x"}`, []Document{{Text: `{"text":"x"}`, Line: 1}}},
		"byte order mark is ignored":            {"a.txt", "\ufeffone", []Document{{Text: "one", Line: 1}}},
		"separator lines split": {"a.txt", "one\nmore\n<|endoftext|>\n\n two\n\n<|endoftext|>\nthree",
			[]Document{{Text: "one\nmore", Line: 1}, {Text: " two", Line: 5}, {Text: "three", Line: 8}}},
		"separators need not be in between": {"a.txt", "<|endoftext|>\none\n<|endoftext|>\n<|endoftext|>\n \n<|endoftext|>\n",
			[]Document{{Text: "one", Line: 2}}},
		"separators with Windows line ends":   {"a.txt", "one\r\n<|endoftext|>\r\ntwo\r\n", []Document{{Text: "one", Line: 1}, {Text: "two", Line: 3}}},
		"separator inside a line is text":     {"a.txt", "one<|endoftext|>two", []Document{{Text: "one<|endoftext|>two", Line: 1}}},
		"JSONL: a document a line":            {"a.jsonl", "{\"text\":\"one\\n\"}\r\n\n \t\n{\"id\":[7],\"text\":\"zw\\u00f6lf\"}", []Document{{Text: "one\n", Line: 1}, {Text: "zwölf", Line: 4}}},
		"JSONL: blank documents are left out": {"A.JSONL", "{\"text\":\"\"}\n{\"text\":\" \"}\n{\"text\":\"x\"}\n", []Document{{Text: "x", Line: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder(t, map[string]string{c.file: c.text}), c.file)
			for i := range c.want {
				c.want[i].File = path
			}
			got, err := ReadDocuments(path)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestReadDocumentsNamesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       []string
	}{
		"empty file":                  {"a.txt", "", []string{"no text"}},
		"blank file":                  {"a.txt", " \n\n", []string{"no text"}},
		"only separators":             {"a.txt", "<|endoftext|>\n<|endoftext|>\n", []string{"no text"}},
		"JSONL of blank lines":        {"a.jsonl", "\n\n", []string{"no text"}},
		"invalid UTF-8":               {"a.txt", "one\nt\xc3\xa9\xffo", []string{"a.txt:2:4:", "0xff", "UTF-8"}},
		"cut-off UTF-8":               {"a.txt", "\xc3", []string{"a.txt:1:1:", "0xc3"}},
		"invalid UTF-8 in JSONL":      {"a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\xe4\"}", []string{"a.jsonl:2:10:", "0xe4"}},
		"not JSON":                    {"a.jsonl", "{\"text\":\"a\"}\n\nhello", []string{"a.jsonl:3:", "JSON object", "invalid character"}},
		"unfinished JSON":             {"a.jsonl", "{\"text\":\"a", []string{"a.jsonl:1:", "JSON object"}},
		"two objects on a line":       {"a.jsonl", `{"text":"a"}{"text":"b"}`, []string{"a.jsonl:1:", "JSON object"}},
		"an array":                    {"a.jsonl", `["text"]`, []string{"a.jsonl:1:", "JSON object"}},
		"null":                        {"a.jsonl", "null", []string{"a.jsonl:1:", "JSON object"}},
		"no text field":               {"a.jsonl", `{"Text":"a","messages":[]}`, []string{"a.jsonl:1:", `no field "text"`, `"Text" "messages"`}},
		"text is null":                {"a.jsonl", `{"text":null}`, []string{"a.jsonl:1:", "not a string", "null"}},
		"text is a list":              {"a.jsonl", `{"text":["a"]}`, []string{"a.jsonl:1:", "not a string"}},
		"JSON":                        {"a.json", `[{"text":"a"}]`, []string{"prose", `.jsonl, with a line {"text": "..."}`, "rename it to .txt"}},
		"JSON in capitals":            {"a.JSON", `{}`, []string{".jsonl", "rename it to .txt"}},
		"CSV":                         {"a.csv", "text\na", []string{"prose", ".jsonl", "rename it to .txt"}},
		"Parquet":                     {"a.parquet", "PAR1", []string{"cannot be read", "convert it to .jsonl"}},
		"Parquet by another name":     {"a.txt", "PAR1 and so on PAR1", []string{"is binary; want text (.txt) or JSONL (.jsonl)"}},
		"gzip":                        {"a.jsonl", "\x1f\x8b\x08 and so on", []string{"is binary; want text (.txt) or JSONL (.jsonl)"}},
		"zero bytes":                  {"a.bin", "ELF\x00", []string{"is binary; want text (.txt) or JSONL (.jsonl)"}},
		"UTF-16":                      {"a.txt", "\xff\xfea\x00", []string{"a.txt:1:1:", "convert the file to UTF-8"}},
		"folder with no data":         {"a.csv", "a,b", []string{"*.txt or *.jsonl", "only a.csv"}},
		"folder with data only below": {"sub/a.txt", "a", []string{"*.txt or *.jsonl", "only sub/"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := folder(t, map[string]string{c.file: c.text})
			if ext := filepath.Ext(c.file); !strings.HasPrefix(name, "folder") {
				path = filepath.Join(path, "a"+ext)
			}
			docs, err := ReadDocuments(path)
			if err == nil {
				t.Fatalf("read %+v", docs)
			}
			for _, part := range append(c.want, path) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
	if _, err := ReadDocuments(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

func TestReadDocumentsOfAFolderInOrder(t *testing.T) {
	dir := folder(t, map[string]string{"b.txt": "2", "a.jsonl": `{"text":"1"}`, "c.TXT": "3", "d.json": "4", "sub.txt/e.txt": "5", "empty.txt": ""})
	docs, err := ReadDocuments(dir)
	var texts []string
	for _, d := range docs {
		texts = append(texts, d.Text)
	}
	if err != nil || !slices.Equal(texts, []string{"1", "2", "3"}) {
		t.Errorf("got %q, %v; want 1, 2, 3", texts, err)
	}
}

func TestFolderWithoutDataSaysWhatItHas(t *testing.T) {
	if _, err := ReadDocuments(t.TempDir()); err == nil || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("empty folder: %v", err)
	}
	files := map[string]string{}
	for _, name := range strings.Split("abcdefghij", "") {
		files[name+".json"] = "{}"
	}
	if _, err := ReadDocuments(folder(t, files)); err == nil || !strings.Contains(err.Error(), "only a.json, b.json") || !strings.HasSuffix(err.Error(), "h.json and 2 more") {
		t.Errorf("ten other files: %v", err)
	}
}

func TestSkippedNamesWhatIsNotRead(t *testing.T) {
	dir := folder(t, map[string]string{"b.txt": "2", "a.jsonl": "", "d.json": "4", "README": "5", "sub.txt/e.txt": "6"})
	if got, err := Skipped(dir); err != nil || !slices.Equal(got, []string{"README", "d.json", "sub.txt/"}) {
		t.Errorf("of a folder: %v, %v", got, err)
	}
	if got, err := Skipped(filepath.Join(dir, "d.json")); err != nil || got != nil {
		t.Errorf("of a file: %v, %v", got, err)
	}
	if _, err := Skipped(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of an absent path: %v", err)
	}
}

// The same stories exist as separated text and as JSONL, made independently.
func TestReadDocumentsOfRealStories(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets", "tinystories")
	plain, err := ReadDocuments(filepath.Join(dir, "tinystories_2MiB.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := ReadDocuments(filepath.Join(dir, "tinystories_2MiB.text.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2316 {
		t.Errorf("%d stories in the JSONL file, want 2316", len(lines))
	}
	if len(plain) < len(lines) {
		t.Fatalf("%d stories in the text file, %d in the JSONL file", len(plain), len(lines))
	}
	for i, d := range lines {
		if strings.TrimSpace(plain[i].Text) != strings.TrimSpace(d.Text) {
			t.Fatalf("story %d differs:\n%q (line %d)\n%q", i, plain[i].Text, plain[i].Line, d.Text)
		}
	}
}

// A line must be read as encoding/json reads it, or be refused; never half.
func FuzzParseJSONL(f *testing.F) {
	f.Add("{\"text\":\"one\"}\n\n{\"text\":\"\\ud83d\\ude00\",\"n\":1}\r\n")
	f.Add(`{"text":null}`)
	f.Add("null\n[]\n{}")
	f.Fuzz(func(t *testing.T, all string) {
		docs, err := parseJSONL(all)
		if err != nil {
			return
		}
		lines := strings.Split(all, "\n")
		last := 0
		for _, d := range docs {
			if d.Line <= last || d.Line > len(lines) {
				t.Fatalf("line %d after line %d of %d", d.Line, last, len(lines))
			}
			last = d.Line
			var want map[string]any
			if err := json.Unmarshal([]byte(lines[d.Line-1]), &want); err != nil {
				t.Fatalf("line %d: %v", d.Line, err)
			}
			if want["text"] != d.Text || !utf8.ValidString(d.Text) {
				t.Fatalf("line %d: got %q, want %q of %q", d.Line, d.Text, want["text"], slices.Sorted(maps.Keys(want)))
			}
		}
	})
}

func FuzzParseText(f *testing.F) {
	f.Add("one\n<|endoftext|>\r\n\n two \n")
	f.Add("<|endoftext|>")
	f.Add("<|endoftext|>\n\r0")
	f.Fuzz(func(t *testing.T, all string) {
		docs, err := parseText(all)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(all, "\n")
		for _, d := range docs {
			first, _, _ := strings.Cut(d.Text, "\n")
			line := lines[d.Line-1]
			if strings.TrimSpace(d.Text) == "" || !strings.HasPrefix(strings.TrimLeft(line, "\r"), strings.TrimLeft(first, "\r")) {
				t.Fatalf("document %q does not start on line %d, %q", d.Text, d.Line, line)
			}
		}
		if slices.ContainsFunc(docs, func(d Document) bool { return strings.Contains(d.Text, "\n"+separator+"\n") }) {
			t.Fatal("a separator line is part of a document")
		}
	})
}
