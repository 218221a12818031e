package records

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// large writes a file of start, many megabytes of one byte, and end.
func large(t *testing.T, name, start, end string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	w.WriteString(start)
	chunk := strings.Repeat("x", 1<<20)
	for range MaxBytes>>20 + 2 {
		w.WriteString(chunk)
	}
	w.WriteString(end)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A row larger than any real one is refused by its place, without keeping it.
func TestARowThatIsTooLongIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		file, start, end string
		want             string
		last             bool // nothing is read after it
	}{
		"a line of JSONL":    {"a.jsonl", "{}\n\"", "\"\n{\"a\":1}\n", ":2: it is longer than 64 MiB", false},
		"an element of JSON": {"a.json", "[{},\n\"", "\"]", ":2: row 2: it is longer than 64 MiB", true},
		"a quote never closed": {"a.csv", "a\nb\n\"", "",
			":3: CSV row: it is longer than 64 MiB; split it; or is a quote not closed?", true},
		"a header that never ends": {"a.csv", "\"", "", ":1: CSV row: it is longer than 64 MiB", true},
	} {
		t.Run(name, func(t *testing.T) {
			path := large(t, c.file, c.start, c.end)
			rows, bad, err := all(t, path)
			got := fmt.Sprint(err)
			if !c.last {
				if len(bad) != 1 || err != nil || len(rows) != 2 {
					t.Fatalf("%d rows, bad %q, error %v; want a row before and after", len(rows), bad, err)
				}
				got = path + bad[0]
			}
			if !strings.HasPrefix(got, path+c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A text of one endless line, as corpora for compression have it, is read in parts.
func TestATextThatIsTooLongIsCut(t *testing.T) {
	path := large(t, "a.txt", "é", "é\nlast\n")
	size, parts := 0, 0
	for r, err := range Read(path) {
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Text) > MaxBytes+1<<16 || r.Place.Line != 1 {
			t.Errorf("a part of %d bytes at line %d", len(r.Text), r.Place.Line)
		}
		size += len(r.Text)
		parts++
	}
	info, err := os.Stat(path)
	if err != nil || int64(size) != info.Size() || parts != 2 {
		t.Errorf("%d bytes in %d parts, of %v (%v)", size, parts, info.Size(), err)
	}
}

// However many rows a file has, one of them is in memory.
func TestReadingKeepsOneRow(t *testing.T) {
	const n, value = 200_000, "0123456789012345678901234567890123456789"
	object := `{"text": "` + value + `"}`
	for name, text := range map[string]string{
		"a.jsonl": strings.Repeat(object+"\n", n),
		"a.json":  "[" + strings.Repeat(object+",\n", n-1) + object + "]",
		"a.csv":   "text\n" + strings.Repeat(value+"\n", n),
		"a.txt":   strings.Repeat(value+"\n"+separator+"\n", n),
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, name, text)
			rows, most := 0, uint64(0)
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			before := m.HeapAlloc
			for _, err := range Read(path) {
				if err != nil {
					t.Fatal(err)
				}
				if rows++; rows%20_000 == 0 {
					runtime.GC()
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc-min(before, m.HeapAlloc))
				}
			}
			if rows != n || most > 1<<20 {
				t.Errorf("%d rows with %d bytes of memory", rows, most)
			}
		})
	}
}
