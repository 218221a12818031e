package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/ctest"
)

// open returns the machine's device if the environment names its libraries, else one in C that is none, as for a test
// that needs that, and has flags for it.
func open(t testing.TB, flags ...string) (*Device, error) {
	t.Helper()
	if os.Getenv(EnvBLAS) == "" || len(flags) > 0 {
		lib := filepath.Join(t.TempDir(), "libcuda.so")
		ctest.Shared(t, lib, "plugins/cuda_linear/testdata/cuda.c", flags...)
		t.Setenv(EnvDriver, lib)
		t.Setenv(EnvBLAS, lib)
	}
	return Open()
}

func device(t testing.TB, flags ...string) *Device {
	t.Helper()
	d, err := open(t, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(d)
	return d
}

func random(seed uint64, elems int) []float32 {
	rng, v := rand.New(rand.NewPCG(seed, 1)), make([]float32, elems)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// source has the elements of a slice.
func source(v []float32) Source { return func(dst []float32, from int) { copy(dst, v[from:]) } }

func target(v []float32) Target { return func(elems []float32, from int) { copy(v[from:], elems) } }

// TestProducts in all forms, of parts of wider matrices, and added to what is there.
func TestProducts(t *testing.T) {
	d := device(t)
	for i, tt := range []struct{ m, n, k int }{{1, 1, 1}, {3, 5, 7}, {64, 32, 16}, {130, 17, 259}} {
		for form := range 8 {
			q := Product{M: tt.m, N: tt.n, K: tt.k, TransA: form&1 > 0, TransB: form&2 > 0, Accumulate: form&4 > 0, Alpha: 0.5}
			t.Run(fmt.Sprintf("%v", q), func(t *testing.T) { checkProduct(t, d, q, uint64(8*i+form)) })
		}
	}
}

// gap is how many columns lie before those of an operand.
const gap = 3

func checkProduct(t *testing.T, d *Device, q Product, seed uint64) {
	dims := func(rows, cols int, trans bool) (int, int) {
		if trans {
			rows, cols = cols, rows
		}
		return rows, cols + gap
	}
	rowsA, strideA := dims(q.M, q.K, q.TransA)
	rowsB, strideB := dims(q.K, q.N, q.TransB)
	a, b, c := random(seed, rowsA*strideA), random(seed+1, rowsB*strideB), random(seed+2, q.M*(q.N+gap))
	got := make([]float32, len(c))
	if err := d.Do(func(p *Pass) {
		all := p.Load(q.M, q.N+gap, source(c))
		q.A, q.B = p.Load(rowsA, strideA, source(a)).From(gap), p.Load(rowsB, strideB, source(b)).From(gap)
		q.C = all.From(gap)
		p.Multiply(q)
		p.Store(all, q.M, target(got))
	}); err != nil {
		t.Fatal(err)
	}
	for i := range q.M {
		for j := range q.N + gap {
			want, size := float64(c[i*(q.N+gap)+j]), 1.0
			if j >= gap {
				sum := 0.0
				for k := range q.K {
					at, bt := i*strideA+k, k*strideB+j-gap
					if q.TransA {
						at = k*strideA + i
					}
					if q.TransB {
						bt = (j-gap)*strideB + k
					}
					sum += float64(a[at+gap]) * float64(b[bt+gap])
				}
				if sum *= float64(q.Alpha); q.Accumulate {
					sum += want
				}
				want, size = sum, math.Sqrt(float64(q.K)+1)
			}
			if v := float64(got[i*(q.N+gap)+j]); !(math.Abs(v-want) <= 1e-6*size*4) {
				t.Fatalf("element %d, %d is %g, want %g", i, j, v, want)
			}
		}
	}
}

// TestMuchIsCopied through slots that are used many times over, while the device is as late as it may be.
func TestMuchIsCopied(t *testing.T) {
	d := device(t)
	v := random(1, 5*slotsEach*vector.Threads()*pieceElems/2+7)
	got := make([]float32, len(v))
	if err := d.Do(func(p *Pass) { p.Store(p.Load(1, len(v), source(v)), 1, target(got)) }); err != nil {
		t.Fatal(err)
	}
	for i := range v {
		if got[i] != v[i] {
			t.Fatalf("element %d is %g, want %g", i, got[i], v[i])
		}
	}
}

// keeper makes a matrix on the device from an input, and counts how often its elements are asked for.
type keeper struct {
	d     *Device
	asked int
}

func (k *keeper) get(t *testing.T, x core.Tensor) []float32 {
	t.Helper()
	v := x.Float32s()
	got := make([]float32, len(v))
	if err := k.d.Do(func(p *Pass) {
		m := p.Keep(1, len(v), func(dst []float32, from int) {
			if from == 0 {
				k.asked++
			}
			copy(dst, v[from:])
		}, x)
		p.Store(m, 1, target(got))
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestInputsAreKept for as long as their content has the same number, at the same place.
func TestInputsAreKept(t *testing.T) {
	k := &keeper{d: device(t)}
	x := core.FromFloat32([]float32{1, 2, 3, 4}, 1, 4)
	check := func(what string, x core.Tensor, asked int) {
		t.Helper()
		before := k.asked
		if got := k.get(t, x); fmt.Sprint(got) != fmt.Sprint(x.Float32s()) {
			t.Errorf("%s: %v, want %v", what, got, x.Float32s())
		}
		if k.asked-before != asked {
			t.Errorf("%s: copied %d times, want %d", what, k.asked-before, asked)
		}
	}
	check("one without a number", x, 1)
	check("the same again", x, 1)
	x.Content = core.NewContent()
	check("one with a number", x, 1)
	check("that again", x, 0)
	x.Float32s()[1], x.Content = 5, core.NewContent()
	check("another content", x, 1)
	check("that again", x, 0)
	if n := len(k.d.kept); n != 1 {
		t.Errorf("%d matrices are kept of one input", n)
	}
	short := x.Slice(0, 2, 1, 2)
	short.Content = core.NewContent()
	check("a smaller one at the same place", short, 1)
	other := core.FromFloat32([]float32{7, 8, 9, 10}, 1, 4)
	other.Content = core.NewContent()
	check("one elsewhere", other, 1)
	for range 200 {
		check("that again", other, 0)
	}
	third := core.FromFloat32([]float32{1}, 1, 1)
	third.Content = core.NewContent()
	check("a third one", third, 1)
	if n := len(k.d.kept); n != 2 {
		t.Errorf("%d matrices are kept, want two: one was not asked for in 200 passes", n)
	}
}

func TestSizes(t *testing.T) {
	for _, tt := range []struct{ elems, want int }{{0, 512}, {1, 512}, {128, 512}, {129, 576}, {144, 576}, {145, 640},
		{256, 1024}, {257, 1152}, {1 << 20, 1 << 22}, {1<<20 + 1, 1<<22 + 1<<19}} {
		if got := sizeOf(tt.elems); got != tt.want {
			t.Errorf("%d elements take %d bytes, want %d", tt.elems, got, tt.want)
		}
	}
}
