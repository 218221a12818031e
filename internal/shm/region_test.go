package shm

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
)

// makers are the two ways to make a region.
var makers = map[string]func(string, int64, Kind) (*Region, error){"default": New, "file": NewFile}

func newRegion(t testing.TB, size int64, kind Kind) *Region {
	t.Helper()
	r, err := New("test", size, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestAllocKeepsPiecesApart allocates and frees at random and checks that pieces are
// aligned, zeroed, within the region and never overlap, and that once all is free the
// region is one gap again.
func TestAllocKeepsPiecesApart(t *testing.T) {
	const size = 1 << 16
	r := newRegion(t, size, HostOnly)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	type piece struct {
		b    []byte
		mark byte
	}
	var live []piece
	sum := int64(0)
	for step := range 5000 {
		if len(live) > 0 && rng.IntN(5) < 2 {
			i := rng.IntN(len(live))
			p := live[i]
			if n := bytes.Count(p.b, []byte{p.mark}); n != len(p.b) {
				t.Fatalf("seed %d step %d: %d of %d bytes overwritten by a neighbour", seed, step, len(p.b)-n, len(p.b))
			}
			sum -= int64(roundUp(len(p.b)))
			r.Free(p.b)
			live = append(live[:i], live[i+1:]...)
		} else if b, err := r.Alloc(1 + rng.IntN(2000)); err == nil {
			if address(b)%Align != 0 || bytes.Count(b, []byte{0}) != len(b) || cap(b) != len(b) {
				t.Fatalf("seed %d step %d: piece of %d bytes not aligned, not zero, or with room behind it", seed, step, len(b))
			}
			if _, ok := r.offset(b); !ok {
				t.Fatalf("seed %d step %d: piece outside the region", seed, step)
			}
			p := piece{b, byte(1 + rng.IntN(255))}
			for i := range b {
				b[i] = p.mark
			}
			live, sum = append(live, p), sum+int64(roundUp(len(b)))
		}
		if r.InUse() != sum {
			t.Fatalf("seed %d step %d: InUse is %d, want %d", seed, step, r.InUse(), sum)
		}
	}
	for _, p := range live {
		r.Free(p.b)
	}
	if r.InUse() != 0 || r.Peak() == 0 || len(r.heap.gaps) != 1 || r.heap.largestGap() != size {
		t.Errorf("seed %d: after freeing all: in use %d, peak %d, gaps %v", seed, r.InUse(), r.Peak(), r.heap.gaps)
	}
}

func TestAllocFromManyGoroutines(t *testing.T) {
	r := newRegion(t, 1<<20, HostOnly)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 200 {
				b, err := r.Alloc(1000)
				if err != nil {
					t.Error(err)
					return
				}
				b[0], b[999] = byte(g), byte(g)
				r.Free(b)
			}
		})
	}
	wg.Wait()
	if r.InUse() != 0 {
		t.Errorf("in use %d", r.InUse())
	}
}

func TestAllocBeyondTheRegionSaysHowLarge(t *testing.T) {
	r := newRegion(t, 4096, HostOnly)
	if _, err := r.Alloc(1000); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{4096, int(^uint(0) >> 1), -1} {
		_, err := r.Alloc(n)
		if err == nil || !strings.Contains(err.Error(), "region test") {
			t.Errorf("Alloc(%d): %v", n, err)
		}
	}
	_, err := r.Alloc(4000)
	for _, want := range []string{"4000 bytes wanted", "1024 of 4096 in use", "largest gap is 3072",
		"make the region larger"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestFreeOfForeignMemoryPanics(t *testing.T) {
	r := newRegion(t, 4096, HostOnly)
	b, err := r.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	r.Free(nil)
	r.Free(b[:10]) // a slice that starts where the allocation starts will do
	for name, bad := range map[string][]byte{"twice": b, "heap": make([]byte, 10), "middle": r.data[64:65]} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			r.Free(bad)
		})
	}
}

func TestLocateFindsTheRegionOfASlice(t *testing.T) {
	a, b := newRegion(t, 1<<16, HostOnly), newRegion(t, 1<<16, Shared)
	for _, r := range []*Region{a, b} {
		if _, err := r.Alloc(1); err != nil {
			t.Fatal(err)
		}
		s, err := r.Alloc(500)
		if err != nil {
			t.Fatal(err)
		}
		for off := range int64(3) {
			got, at, ok := Locate(s[off*8:])
			if !ok || got != r || at != 64+off*8 {
				t.Errorf("Locate: region %v at %d, %v; want %s at %d", got, at, ok, r.Name(), 64+off*8)
			}
		}
		if _, _, ok := Locate(r.Bytes()[r.Size()-1:]); !ok {
			t.Error("the last byte is not found")
		}
	}
	if a.ID() == b.ID() || a.ID() == 0 {
		t.Errorf("ids %d and %d", a.ID(), b.ID())
	}
	for name, s := range map[string][]byte{"heap": make([]byte, 8), "empty": a.Bytes()[:0], "nil": nil} {
		if r, _, ok := Locate(s); ok {
			t.Errorf("%s slice found in region %s", name, r.Name())
		}
	}
}

func TestCloseRemovesTheRegion(t *testing.T) {
	for name, newRegion := range makers {
		t.Run(name, func(t *testing.T) {
			r, err := newRegion("test", 1<<16, HostOnly)
			if err != nil {
				t.Fatal(err)
			}
			file := r.path
			b, err := r.Alloc(8)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				if !r.Closed() {
					t.Error("a closed region does not say so")
				}
			}
			if _, _, ok := Locate(b); ok {
				t.Error("a slice of a closed region is still found")
			}
			if _, err := r.Alloc(8); err == nil {
				t.Error("a closed region allocates")
			}
			r.Free(b) // its owner may be closed after the region
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s was left behind", file)
			}
		})
	}
}

func TestNewRefusesSizes(t *testing.T) {
	for name, newRegion := range makers {
		if r, err := newRegion("test", -1, HostOnly); err == nil {
			t.Errorf("%s: size -1 gives region %v", name, r.ID())
		}
	}
}

func TestMapRefusesAShortFile(t *testing.T) {
	r, err := NewFile("test", 4096, Shared)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := MapPath(r.Path(), 8192, false); err == nil || !strings.Contains(err.Error(), "fewer than 8192") {
		t.Errorf("error %v", err)
	}
	if _, err := MapPath(r.Path()+".absent", 4096, false); err == nil {
		t.Error("a missing file was mapped")
	}
}

func BenchmarkAllocFree(b *testing.B) {
	r := newRegion(b, 1<<20, HostOnly)
	b.ReportAllocs()
	for b.Loop() {
		p, err := r.Alloc(64)
		if err != nil {
			b.Fatal(err)
		}
		r.Free(p)
	}
}

func BenchmarkLocate(b *testing.B) {
	r := newRegion(b, 1<<20, HostOnly)
	for b.Loop() {
		if _, _, ok := Locate(r.data[4096:5000]); !ok {
			b.Fatal("lost")
		}
	}
}
