package corpus

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/data"
)

// A file of 32 million tokens, which are 128 MiB, is read and dealt in a fraction of that.
func TestLoadingKeepsLittleInMemory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const rows, tokens = 16_000, 2000
	path := filepath.Join(t.TempDir(), "a.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, line := bufio.NewWriter(f), `{"text": "`+strings.Repeat("0123456789", tokens/10)+"\"}\n"
	for range rows {
		if _, err := w.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	corpus := load(t, Config{Paths: []string{path}}, model(512))
	loader, err := data.NewLoader(corpus.Train, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := loader.Next(); err != nil {
			t.Fatal(err)
		}
	}
	const most = 32 << 20
	if now := heap(); now > before+most {
		t.Errorf("%d MiB are in memory", (now-before)>>20)
	}
	if r := corpus.Report; r.Examples != rows || r.Tokens < rows*tokens {
		t.Errorf("report %+v", r)
	}
	runtime.KeepAlive(loader)
}
