package data

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// example is what was put into a store.
type example struct {
	ids   []int32
	learn []bool
}

// fill puts n random examples into a store.
func fill(t testing.TB, s *Store, n int, seed uint64) []example {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	all := make([]example, n)
	for i := range all {
		e := example{make([]int32, 1+rng.IntN(20)), make([]bool, 0)}
		for k := range e.ids {
			e.ids[k] = int32(rng.IntN(1 << 20))
			e.learn = append(e.learn, rng.IntN(2) == 0)
		}
		if err := s.Add(e.ids, e.learn); err != nil {
			t.Fatal(err)
		}
		all[i] = e
	}
	return all
}

// A store gives back what it was given, in memory and on disk, in any order.
func TestAStoreKeepsExamples(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, limit := range []int{1 << 20, 100, 1} { // all in memory, some, and next to none
		s := &Store{limit: limit}
		want := fill(t, s, 200, 3)
		if onDisk := s.file != nil; onDisk != (limit < 1<<20) {
			t.Errorf("limit %d: on disk is %v", limit, onDisk)
		}
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(len(want)) {
			ids, learn, err := s.Example(i)
			if err != nil || !slices.Equal(ids, want[i].ids) || !slices.Equal(learn, want[i].learn) || s.Tokens(i) != len(ids) {
				t.Fatalf("limit %d: example %d is %v %v, %v; want %v", limit, i, ids, learn, err, want[i])
			}
		}
		if s.Len() != len(want) {
			t.Errorf("limit %d: %d examples", limit, s.Len())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAStoreLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s := &Store{limit: 10}
	fill(t, s, 50, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestAStoreWithoutAFolderSaysWhatToDo(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", file)
	if err := (&Store{limit: 1}).Add([]int32{1, 2}, nil); err == nil || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Errorf("error %v", err)
	}
}

// Sixteen million tokens take little memory, and so do the rows made of them.
func TestMemoryDoesNotGrowWithTheTokens(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const examples, tokens, limit = 4096, 4096, 1 << 18
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, s := heap(), &Store{limit: limit}
	ids := make([]int32, tokens)
	all := make([]int, examples)
	for i := range all {
		if err := s.Add(ids, nil); err != nil {
			t.Fatal(err)
		}
		all[i] = i
	}
	p, err := NewPacked(s, 512, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Concat(all)
	l, err := NewLoader(p, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := l.Next(); err != nil {
			t.Fatal(err)
		}
	}
	const most = 8 << 20 // of the 64 MiB that the tokens are
	if now := heap(); now > before+most {
		t.Errorf("%d MiB for %d MiB of tokens", (now-before)>>20, 4*examples*tokens>>20)
	}
	runtime.KeepAlive(l)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestALoaderReportsAStoreThatIsGone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := &Store{limit: 1}
	fill(t, s, 10, 1)
	p, err := NewPacked(s, 32, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.BestFit([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	l, err := NewLoader(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Next(); err == nil {
		t.Error("Next: no error")
	}
	batches, failed := Stream(p, 2)
	for range batches {
		t.Error("Stream: a batch")
	}
	if failed() == nil {
		t.Error("Stream: no error")
	}
}
