package measure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/core"
)

func someKey() key {
	return key{Plugin: "abc", Program: "def", CPU: "some CPU", Variant: "avx2", Threads: 2, Kernel: "k", Op: core.SwiGLU,
		Facts:        core.Facts{DType: core.Float32, Intermediate: 6, Activation: "silu", Layout: core.Separate},
		RowsPerToken: 1, Batch: 4, Seq: 8, MaxPosition: 8}
}

func someMeasurement() core.Measurement {
	return core.Measurement{Plain: 10, Kernel: 20, PlainBytes: 30, KernelBytes: 40, Tokens: 32}
}

func tempCache(t *testing.T) *cache {
	return newCache(Options{CacheDir: filepath.Join(t.TempDir(), "made", "when needed")})
}

func TestWhatIsStoredIsLoaded(t *testing.T) {
	c, k := tempCache(t), someKey()
	if _, ok := c.load(k); ok {
		t.Error("found something in an empty cache")
	}
	for _, plain := range []int{10, 11} { // the second replaces the first
		m := someMeasurement()
		m.Plain += 1
		m.PlainBytes = plain
		if err := c.store(k, m); err != nil {
			t.Fatal(err)
		}
		if got, ok := c.load(k); !ok || got != m {
			t.Errorf("got %+v, %v; want %+v", got, ok, m)
		}
	}
	if files, err := os.ReadDir(c.dir); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v; want one", files, err)
	}
}

func TestEveryPartOfTheKeyCounts(t *testing.T) {
	c := tempCache(t)
	if err := c.store(someKey(), someMeasurement()); err != nil {
		t.Fatal(err)
	}
	changes := map[string]func(*key){
		"plugin":  func(k *key) { k.Plugin += "x" },
		"program": func(k *key) { k.Program += "x" },
		"cpu":     func(k *key) { k.CPU += "x" },
		"variant": func(k *key) { k.Variant = "generic" },
		"threads": func(k *key) { k.Threads++ },
		"kernel":  func(k *key) { k.Kernel += "x" },
		"op":      func(k *key) { k.Op = core.RoPE },
		"facts":   func(k *key) { k.Facts.Intermediate++ },
		"rows":    func(k *key) { k.RowsPerToken++ },
		"batch":   func(k *key) { k.Batch, k.Seq = k.Seq, k.Batch },
		"limit":   func(k *key) { k.MaxPosition++ },
	}
	for name, change := range changes {
		k := someKey()
		change(&k)
		if _, ok := c.load(k); ok {
			t.Errorf("another %s finds the same entry", name)
		}
	}
}

func TestSpoiltEntriesAreIgnored(t *testing.T) {
	c, k := tempCache(t), someKey()
	if err := c.store(k, someMeasurement()); err != nil {
		t.Fatal(err)
	}
	path, err := c.path(k)
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(old, changed string) string { return strings.Replace(string(good), old, changed, 1) }
	for name, text := range map[string]string{
		"empty":          "",
		"cut short":      string(good[:len(good)/2]),
		"another key":    replaced(`"threads": 2`, `"threads": 3`),
		"no time":        replaced(`"kernel_ns": 20`, `"kernel_ns": 0`),
		"negative bytes": replaced(`"plain_bytes": 30`, `"plain_bytes": -30`),
		"other tokens":   replaced(`"tokens": 32`, `"tokens": 33`),
		"another type":   `[]`,
	} {
		if text == string(good) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if m, ok := c.load(k); ok {
			t.Errorf("%s: loaded %+v", name, m)
		}
	}
}

func TestConcurrentRunsSeeWholeEntries(t *testing.T) {
	c, k := tempCache(t), someKey()
	if err := c.store(k, someMeasurement()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if err := c.store(k, someMeasurement()); err != nil {
					t.Error(err)
				}
				// Windows does not open what is being replaced: then it is measured again.
				if _, ok := c.load(k); !ok && runtime.GOOS != "windows" {
					t.Error("read a part of an entry")
				}
			}
		})
	}
	wg.Wait()
}

func TestAFolderThatCannotBeWrittenIsAnErrorWithoutItsPath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := newCache(Options{CacheDir: filepath.Join(file, "below")}).store(someKey(), someMeasurement())
	if err == nil || strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want the cause alone", err)
	}
}

func FuzzParse(f *testing.F) {
	good, err := json.Marshal(entry{someKey(), someMeasurement()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"measurement":{"plain_ns":1e30}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parse(b, someKey())
		if ok && (m.Plain <= 0 || m.Kernel <= 0 || m.Tokens != 32) {
			t.Errorf("accepted %+v", m)
		}
		if !ok && m != (core.Measurement{}) {
			t.Errorf("refused, but gave %+v", m)
		}
	})
}
