package onednn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// open returns the machine's library. Where there is none, and none is named, there is nothing to test.
func open(t testing.TB) *Library {
	t.Helper()
	l, err := Open()
	if err != nil && os.Getenv(EnvLibrary) == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log(l)
	return l
}

// gap is how many elements lie between the rows of a matrix.
const gap = 3

func random(rng *rand.Rand, rows, cols int, half bool) vector.Matrix {
	m := vector.Matrix{Data: make([]float32, rows*(cols+gap)), Stride: cols + gap}
	for i := range m.Data {
		m.Data[i] = float32(rng.NormFloat64())
	}
	if half {
		m.BFloat16 = make([]uint16, len(m.Data))
		for i, v := range m.Data {
			m.BFloat16[i] = core.Float32ToBFloat16(v)
		}
		m.Data = nil
	}
	return m
}

func at(m vector.Matrix, row, col int, trans bool) float32 {
	if trans {
		row, col = col, row
	}
	if m.BFloat16 != nil {
		return core.BFloat16ToFloat32(m.BFloat16[row*m.Stride+col])
	}
	return m.Data[row*m.Stride+col]
}

// rounded is a product of factors that are rounded.
func rounded(p vector.Product) vector.Product {
	p.A.Rounded, p.B.Rounded = true, true
	return p
}

// product makes one with data.
func product(seed uint64, m, n, k int, transA, transB, half, accumulate bool) vector.Product {
	rng := rand.New(rand.NewPCG(seed, 1))
	dims := func(rows, cols int, trans bool) (int, int) {
		if trans {
			return cols, rows
		}
		return rows, cols
	}
	p := vector.Product{M: m, N: n, K: k, TransA: transA, TransB: transB, StrideC: n, Accumulate: accumulate}
	rows, cols := dims(m, k, transA)
	p.A = random(rng, rows, cols, half)
	rows, cols = dims(k, n, transB)
	p.B = random(rng, rows, cols, half)
	p.C = make([]float32, m*n)
	for i := range p.C {
		p.C[i] = float32(rng.NormFloat64())
	}
	return p
}

// check compares what became of C with float64. The bound holds for any order of sums in float32, of products of
// factors that are as given, or rounded: an error of half a unit in the last place for each term and its product.
func check(t *testing.T, p vector.Product, before []float32, round bool) {
	t.Helper()
	factor := func(v float32) float64 {
		if round {
			v = core.BFloat16ToFloat32(core.Float32ToBFloat16(v))
		}
		return float64(v)
	}
	for r := range p.M {
		for c := range p.N {
			sum, size := 0.0, 0.0
			if p.Accumulate {
				sum = float64(before[r*p.StrideC+c])
				size = math.Abs(sum)
			}
			for i := range p.K {
				term := factor(at(p.A, r, i, p.TransA)) * factor(at(p.B, i, c, p.TransB))
				sum += term
				size += math.Abs(term)
			}
			got, limit := float64(p.C[r*p.StrideC+c]), size*float64(p.K+2)*0x1p-24
			if !(math.Abs(got-sum) <= limit) {
				t.Fatalf("element %d,%d is %g, want %g, with an error of at most %g", r, c, got, sum, limit)
			}
		}
	}
}

func TestProductsAreThoseOfPlainGo(t *testing.T) {
	l := open(t)
	for _, size := range [][3]int{
		{1, 1, 1}, {1, 70, 33}, {5, 7, 3}, {31, 1, 64}, {65, 130, 1}, {33, 65, 517}, {131, 67, 259},
	} {
		for form := range 16 {
			transA, transB, half, accumulate := form&1 != 0, form&2 != 0, form&4 != 0, form&8 != 0
			t.Run(fmt.Sprintf("%v transA=%t transB=%t half=%t accumulate=%t", size, transA, transB, half, accumulate),
				func(t *testing.T) {
					p := product(1, size[0], size[1], size[2], transA, transB, half, accumulate)
					before := slices.Clone(p.C)
					l.Multiply(p)
					check(t, p, before, false)
					if !l.BFloat16() {
						return
					}
					copy(p.C, before)
					l.Multiply(rounded(p))
					check(t, p, before, true)
				})
		}
	}
}

// TestSizesOfOneNeedNotLieApart: rows of one element and columns of one row have strides that other
// libraries refuse.
func TestSizesOfOneNeedNotLieApart(t *testing.T) {
	l := open(t)
	for _, trans := range []bool{false, true} {
		p := vector.Product{M: 1, N: 1, K: 4, TransA: trans, TransB: !trans, C: make([]float32, 1), StrideC: 1,
			A: vector.Matrix{Data: []float32{1, 2, 3, 4}, Stride: 4}, B: vector.Matrix{Data: []float32{5, 6, 7, 8}, Stride: 4}}
		if trans {
			p.A.Stride, p.B.Stride = 1, 1
		}
		l.Multiply(p)
		if p.C[0] != 70 {
			t.Errorf("the sum is %g, want 70", p.C[0])
		}
	}
}

func TestProductsOfNothing(t *testing.T) {
	l := open(t)
	c := []float32{1, 2, 3}
	l.Multiply(vector.Product{M: 1, N: 3, StrideC: 3, C: c, Accumulate: true}, vector.Product{N: 3, K: 3, StrideC: 3})
	if want := []float32{1, 2, 3}; !slices.Equal(c, want) {
		t.Errorf("adding nothing makes %v of %v", c, want)
	}
	l.Multiply(vector.Product{M: 1, N: 3, StrideC: 3, C: c})
	if want := []float32{0, 0, 0}; !slices.Equal(c, want) {
		t.Errorf("the sum of nothing is %v, want %v", c, want)
	}
}

// TestManyShapesAndCallsKeepNothing: 10,000 calls, of more shapes than are kept prepared, leave nothing. Memory comes
// and goes; what is left behind is so each time.
func TestManyShapesAndCallsKeepNothing(t *testing.T) {
	l := open(t)
	const tries, calls, limit = 4, 2500, 4 << 20
	least := math.MaxInt
	for try := range tries + 1 {
		before := resident(t)
		for i := range calls {
			l.Multiply(product(1, 1+i%9, 1+i%(most+13), 16, false, true, false, false))
		}
		if grown := resident(t) - before; try > 0 { // the first finds its size
			least = min(least, grown)
		}
	}
	if least > limit {
		t.Errorf("the process grows by %d bytes or more with %d calls, limit %d", least, calls, limit)
	}
	if len(l.prepared) > most {
		t.Errorf("%d products are kept prepared, limit %d", len(l.prepared), most)
	}
}

// resident returns how large the process is in memory, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("this system does not tell how large a process is: ", err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestSameBitsEachTime(t *testing.T) {
	l := open(t)
	p := product(1, 259, 130, 1030, true, false, false, false)
	if l.BFloat16() {
		p = rounded(p)
	}
	l.Multiply(p)
	first := slices.Clone(p.C)
	for range 20 {
		clear(p.C)
		l.Multiply(p)
		if !slices.Equal(p.C, first) {
			t.Fatal("the same product has other bits")
		}
	}
}

// TestThreadsAreGivenBack: what else the process computes with OpenMP keeps the threads that it had.
func TestThreadsAreGivenBack(t *testing.T) {
	l := open(t)
	var within uintptr
	l.onThreads(func() {
		l.setThreads.Call(7)
		l.onThreads(func() { within = l.threads.Call() })
		if n := l.threads.Call(); n != 7 {
			t.Errorf("%d threads after a call, 7 before", n)
		}
	})
	if within != uintptr(vector.Threads()) {
		t.Errorf("a call has %d threads, want %d", within, vector.Threads())
	}
}

func TestItSaysWhichLibraryItIs(t *testing.T) {
	l := open(t)
	if s := l.String(); !strings.HasPrefix(s, "oneDNN "+l.Version+", ") || !strings.HasSuffix(s, l.Path) {
		t.Errorf("it says %q", s)
	}
}

func TestALibraryThatIsNamedAndNotThere(t *testing.T) {
	t.Setenv(EnvLibrary, "none.so")
	_, err := Open()
	if err == nil || !strings.Contains(err.Error(), "the library that $TUNE_ONEDNN names cannot be used: load none.so") {
		t.Errorf("error %v", err)
	}
}

func BenchmarkMultiply(b *testing.B) {
	for name, of := range map[string]func(l *Library, p vector.Product){
		"onednn float32":  func(l *Library, p vector.Product) { l.Multiply(p) },
		"onednn bfloat16": func(l *Library, p vector.Product) { l.Multiply(rounded(p)) },
		"tune bfloat16": func(_ *Library, p vector.Product) {
			vector.MultiplyTiles(vector.TileProduct{Product: rounded(p)})
		},
		"tune float32": func(_ *Library, p vector.Product) { vector.Multiply(p) },
		"tune tiles":   func(_ *Library, p vector.Product) { vector.MultiplyTiles(vector.TileProduct{Product: p}) },
	} {
		for form, trans := range map[string][2]bool{"NT": {false, true}, "NN": {}, "TN": {true, false}} {
			b.Run(name+"/"+form, func(b *testing.B) {
				l := open(b)
				p := product(1, 1024, 3072, 1024, trans[0], trans[1], false, false)
				p.A.Stride, p.B.Stride = p.A.Stride-gap, p.B.Stride-gap
				for b.Loop() {
					of(l, p)
				}
				flops := 2 * float64(p.M) * float64(p.N) * float64(p.K)
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()*1e-9, "Gflop/s")
			})
		}
	}
}
