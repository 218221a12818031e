package cuda

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// TestMemoryIsFound by dropping what is kept, where a device has little. What has no room is an error with numbers.
func TestMemoryIsFound(t *testing.T) {
	k := &keeper{d: device(t, "-DMEMORY=8388608")}
	for i := range 12 {
		elems := 250_000 + 50_000*i
		x := core.FromFloat32(random(uint64(i), elems), 1, elems)
		x.Content = core.NewContent()
		if got := k.get(t, x); !slices.Equal(got, x.Float32s()) {
			t.Fatalf("tensor %d is not what was copied", i)
		}
	}
	k.d.Lost = func(err error) { t.Errorf("the device is lost by a want of memory: %v", err) }
	err := k.d.Do(func(p *Pass) {
		p.Store(p.Load(100, 1<<20, func([]float32, int) { t.Error("what has no room is copied") }), 100,
			func([]float32, int) { t.Error("what is not there is copied back") })
	})
	want := "its memory has no room for 416 MiB: 8 MiB of 8 MiB are free; take fewer tokens"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("an error %v", err)
	}
	// Memory of another size at the address of what was kept, where that has to go to make room.
	v := random(1, 3<<19)
	for i := range 20 {
		elems := 3 << (18 + i%2)
		x := core.FromFloat32(v[:elems], 1, elems)
		x.Content = core.NewContent()
		if got := k.get(t, x); got[elems-1] != v[elems-1] {
			t.Fatalf("element %d is %g, want %g", elems-1, got[elems-1], v[elems-1])
		}
	}
}

// TestWhatAPassNeedsStays where there is no room for more.
func TestWhatAPassNeedsStays(t *testing.T) {
	d := device(t, "-DMEMORY=8388608")
	x := core.FromFloat32(random(1, 1<<20), 1, 1<<20)
	x.Content = core.NewContent()
	err := d.Do(func(p *Pass) {
		p.Keep(1, 1<<20, source(x.Float32s()), x)
		p.New(1, 3<<19)
	})
	if err == nil || !strings.Contains(err.Error(), "no room for 6 MiB: 4 MiB of 8 MiB are free") {
		t.Errorf("an error %v", err)
	}
}

// TestTwoContentsAtOnePlaceInAPass are two matrices.
func TestTwoContentsAtOnePlaceInAPass(t *testing.T) {
	d := device(t)
	x := core.FromFloat32([]float32{1, 2, 3, 4}, 1, 4)
	x.Content = core.NewContent()
	y, other := x, []float32{5, 6, 7, 8}
	y.Content = core.NewContent()
	first, second := make([]float32, 4), make([]float32, 4)
	if err := d.Do(func(p *Pass) {
		a, b := p.Keep(1, 4, source(x.Float32s()), x), p.Keep(1, 4, source(other), y)
		p.Store(a, 1, target(first))
		p.Store(b, 1, target(second))
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first, x.Float32s()) || !slices.Equal(second, other) {
		t.Errorf("%v and %v, want %v and %v", first, second, x.Float32s(), other)
	}
}

// TestAPassThatOnlyKeepsIsDoneAtItsEnd before others use its slots.
func TestAPassThatOnlyKeepsIsDoneAtItsEnd(t *testing.T) {
	d := device(t)
	x := core.FromFloat32(random(1, 1000), 1, 1000)
	x.Content = core.NewContent()
	keep := func(p *Pass) Matrix {
		return p.Keep(1, 1000, source(x.Float32s()), x)
	}
	got, much := make([]float32, 1000), random(2, 2*slotsEach*vector.Threads()*pieceElems)
	for i, work := range []func(p *Pass){
		func(p *Pass) { keep(p) },
		func(p *Pass) { p.Load(1, len(much), source(much)) },
		func(p *Pass) { p.Store(keep(p), 1, target(got)) },
	} {
		if err := d.Do(work); err != nil {
			t.Fatalf("pass %d: %v", i, err)
		}
	}
	if !slices.Equal(got, x.Float32s()) {
		t.Error("what was kept is not what was loaded")
	}
}

// TestPassesTakeTurns where several goroutines ask for them.
func TestPassesTakeTurns(t *testing.T) {
	d := device(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			k := &keeper{d: d}
			for j := range 10 {
				x := core.FromFloat32(random(uint64(10*i+j), 1000), 1, 1000)
				if got := k.get(t, x); !slices.Equal(got, x.Float32s()) {
					t.Errorf("goroutine %d, pass %d: other elements", i, j)
				}
			}
		})
	}
	wg.Wait()
}
