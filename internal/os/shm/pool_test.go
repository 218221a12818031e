package shm

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func newPool(t testing.TB, limit int64, region func(string, int64, Kind) (*Region, error)) *Pool {
	t.Helper()
	p := NewPool("test", limit, HostOnly, region)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// small makes regions no larger than asked for, as if address space were scarce.
func small(most int64) func(string, int64, Kind) (*Region, error) {
	return func(name string, size int64, kind Kind) (*Region, error) {
		if size > most {
			return nil, errors.New("not that much")
		}
		return New(name, size, kind)
	}
}

func mustAlloc(t testing.TB, p *Pool, n int) []byte {
	t.Helper()
	b, err := p.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAPoolHasNoCeilingOfItsOwn: half a tebibyte in pieces, none of which is touched, as a
// machine that large would allocate it.
func TestAPoolHasNoCeilingOfItsOwn(t *testing.T) {
	if ^uint(0)>>32 == 0 || addressLimit() > 0 || Anonymous() != nil {
		t.Skip("there is less address space here")
	}
	p := newPool(t, 0, New)
	for piece, used := int64(3<<30), int64(0); used < 512<<30; used += piece {
		mustAlloc(t, p, int(piece))
	}
	if n := len(p.arenas); n > 16 {
		t.Errorf("%d regions, of which every plugin maps each", n)
	}
}

// TestAPoolGrowsByWhatItCanHave: large regions are refused, and pieces fit all the same.
func TestAPoolGrowsByWhatItCanHave(t *testing.T) {
	p := newPool(t, 0, small(1<<20))
	var live [][]byte
	for i := range 5 {
		b := mustAlloc(t, p, 700<<10)
		b[0], b[len(b)-1] = byte(i+1), byte(i+1)
		live = append(live, b)
	}
	if len(p.arenas) != 5 {
		t.Errorf("%d regions", len(p.arenas))
	}
	for i, b := range live {
		r, _, ok := Locate(b)
		if !ok || !p.Has(r) || b[0] != byte(i+1) || b[len(b)-1] != byte(i+1) {
			t.Errorf("piece %d is not where it was", i)
		}
	}
	if other := newRegion(t, 4096, HostOnly); p.Has(other) {
		t.Error("the pool has a region that is not its own")
	}
	_, err := p.Alloc(2 << 20)
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(),
		"memory test for 2 MiB beside 3.42 MiB in use: not that much") {
		t.Errorf("error %v", err)
	}
}

// TestAPoolGivesEmptyRegionsBack: and hands out zeroed memory again.
func TestAPoolGivesEmptyRegionsBack(t *testing.T) {
	p := newPool(t, 0, small(1<<20))
	rng := rand.New(rand.NewPCG(1, 2))
	var live [][]byte
	for range 2000 {
		if len(live) > 0 && rng.IntN(5) < 2 {
			i := rng.IntN(len(live))
			p.Free(live[i])
			live = append(live[:i], live[i+1:]...)
			continue
		}
		b := mustAlloc(t, p, 1+rng.IntN(100<<10))
		for i, v := range b {
			if v != 0 {
				t.Fatalf("byte %d of %d is not zero", i, len(b))
			}
			b[i] = 1
		}
		if live = append(live, b); len(live) > 50 {
			p.Free(live[0])
			live = live[1:]
		}
	}
	for _, b := range live {
		p.Free(b)
	}
	if len(p.arenas) != 1 || p.InUse() != 0 {
		t.Errorf("%d regions and %d bytes are left", len(p.arenas), p.InUse())
	}
}

func TestATrimmedPoolHasNoEmptyRegions(t *testing.T) {
	p := newPool(t, 0, small(1<<20))
	first, second := mustAlloc(t, p, 700<<10), mustAlloc(t, p, 700<<10)
	r, _, _ := Locate(first)
	second[0] = 7
	p.Free(first)
	if err := p.Trim(); err != nil || !r.Closed() || len(p.arenas) != 1 || second[0] != 7 {
		t.Errorf("error %v, closed %v, %d regions", err, r.Closed(), len(p.arenas))
	}
	p.Free(second)
	if err := p.Trim(); err != nil || len(p.arenas) != 0 {
		t.Errorf("error %v, %d regions", err, len(p.arenas))
	}
	if again := mustAlloc(t, p, 700<<10); again[0] != 0 {
		t.Error("what is allocated after that is not zero")
	}
}

func TestAPoolApartHasItsOwnRegions(t *testing.T) {
	p := newPool(t, 1<<20, New)
	mustAlloc(t, p, 1<<19)
	apart := p.Apart()
	b := mustAlloc(t, apart, 1<<18)
	r, _, _ := Locate(b)
	if p.Has(r) || p.InUse() != 1<<19 {
		t.Error("the pool itself was used")
	}
	if _, err := apart.Alloc(1<<18 + 1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("error %v of more than the pool has left", err)
	}
	apart.Free(b)
	if err := apart.Close(); err != nil || !r.Closed() {
		t.Errorf("error %v, closed %v", err, r.Closed())
	}
	mustAlloc(t, p, 1<<19) // which is all there is
	if b, err := p.Apart().Alloc(Align); !errors.Is(err, ErrNoRoom) {
		t.Errorf("%d bytes and error %v of a pool that is full", len(b), err)
	}
}

func TestAPoolKeepsItsLimit(t *testing.T) {
	p := newPool(t, 1<<20, New)
	b := mustAlloc(t, p, 1<<20)
	_, err := p.Alloc(1)
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "1 MiB is all there may be") {
		t.Errorf("error %v", err)
	}
	p.Free(b)
	mustAlloc(t, p, 1<<19)
	if _, err := p.Alloc(-1); err == nil {
		t.Error("a negative size was accepted")
	}
	if _, err := p.Alloc(int(^uint(0) >> 1)); !errors.Is(err, ErrNoRoom) {
		t.Errorf("error %v", err)
	}
}

func TestAClosedPoolAllocatesNothing(t *testing.T) {
	p := newPool(t, 0, New)
	b := mustAlloc(t, p, 10)
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	p.Free(b) // its owner may be closed after the pool
	if _, err := p.Alloc(1); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "so is its plugin") {
		t.Errorf("error %v", err)
	}
}

func TestFreeOfWhatIsNotThePoolsPanics(t *testing.T) {
	p := newPool(t, 0, New)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	p.Free(make([]byte, 10))
}

// TestAFileThatTheDiskHasNoRoomForIsRefused, where the first write to it would end the
// process.
func TestAFileThatTheDiskHasNoRoomForIsRefused(t *testing.T) {
	dir := t.TempDir()
	free, known := freeSpace(filepath.Join(dir, "file"))
	if !known || ^uint(0)>>32 == 0 {
		t.Skip("it is not known how much room there is")
	}
	t.Setenv("TMPDIR", dir)
	p := newPool(t, 0, NewFile)
	mustAlloc(t, p, 1<<20)
	_, err := p.Alloc(int(free + 1<<30))
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("error %v", err)
	}
	if p.InUse() != 1<<20 {
		t.Errorf("%d bytes are in use", p.InUse())
	}
	mustAlloc(t, p, 1<<20)
}

// TestAllocKeepsPiecesApart allocates and frees at random and checks that pieces are
// aligned, zeroed, within a region and never overlap, and that once all is free the
// first region is one gap again.
func TestAllocKeepsPiecesApart(t *testing.T) {
	const size = 1 << 16
	p := newPool(t, size, New)
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
			old := live[i]
			if n := bytes.Count(old.b, []byte{old.mark}); n != len(old.b) {
				t.Fatalf("seed %d step %d: %d of %d bytes overwritten by a neighbour", seed, step, len(old.b)-n, len(old.b))
			}
			sum -= int64(roundUp(len(old.b)))
			p.Free(old.b)
			live = append(live[:i], live[i+1:]...)
		} else if b, err := p.Alloc(1 + rng.IntN(2000)); err == nil {
			if address(b)%Align != 0 || bytes.Count(b, []byte{0}) != len(b) || cap(b) != len(b) {
				t.Fatalf("seed %d step %d: piece of %d bytes not aligned, not zero, or with room behind it", seed, step, len(b))
			}
			if r, _, ok := Locate(b); !ok || !p.Has(r) {
				t.Fatalf("seed %d step %d: piece outside the pool's regions", seed, step)
			}
			mark := byte(1 + rng.IntN(255))
			for i := range b {
				b[i] = mark
			}
			live, sum = append(live, piece{b, mark}), sum+int64(roundUp(len(b)))
		}
		if p.InUse() != sum {
			t.Fatalf("seed %d step %d: InUse is %d, want %d", seed, step, p.InUse(), sum)
		}
	}
	for _, left := range live {
		p.Free(left.b)
	}
	if gaps := p.arenas[0].heap.gaps; p.InUse() != 0 || len(gaps) != 1 || gaps[0] != (span{0, size}) {
		t.Errorf("seed %d: after freeing all: in use %d, gaps %v", seed, p.InUse(), gaps)
	}
}

func TestAllocFromManyGoroutines(t *testing.T) {
	p := newPool(t, 1<<20, New)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 200 {
				b, err := p.Alloc(1000)
				if err != nil {
					t.Error(err)
					return
				}
				b[0], b[999] = byte(g), byte(g)
				p.Free(b)
			}
		})
	}
	wg.Wait()
	if p.InUse() != 0 {
		t.Errorf("in use %d", p.InUse())
	}
}

func TestFreeOfForeignMemoryPanics(t *testing.T) {
	p := newPool(t, 4096, New)
	b := mustAlloc(t, p, 100)
	p.Free(nil)
	p.Free(b[:10]) // a slice that starts where the allocation starts will do
	for name, bad := range map[string][]byte{"twice": b, "heap": make([]byte, 10), "middle": p.arenas[0].data[64:65]} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			p.Free(bad)
		})
	}
}

func BenchmarkAllocFree(b *testing.B) {
	pool := newPool(b, 1<<20, New)
	b.ReportAllocs()
	for b.Loop() {
		pool.Free(mustAlloc(b, pool, 64))
	}
}
