package autograd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// mul is y = a * b, a plain operation with two gradients.
func mul(n int) Op {
	return Op{Name: "mul", Outputs: []Spec{Float32(n)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			for i, a := range in[0].Float32s() {
				out[0].Float32s()[i] = a * in[1].Float32s()[i]
			}
			return nil
		},
		Backward: &Backward{Inputs: []int{0, 1}, Wrt: []int{0, 1}, Run: func(_ context.Context, g *Grads) error {
			for i, d := range g.DOut[0].Float32s() {
				for j := range 2 {
					if !g.DIn[j].IsZero() {
						g.DIn[j].Float32s()[i] = d * g.In[1-j].Float32s()[i]
					}
				}
			}
			return nil
		}}}
}

// add is y = a + b; the gradient passes through both.
func add(n int) Op {
	return Op{Name: "add", Outputs: []Spec{Float32(n)}, InPlace: true,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			for i := range out[0].Float32s() {
				out[0].Float32s()[i] = in[0].Float32s()[i] + in[1].Float32s()[i]
			}
			return nil
		},
		Backward: &Backward{Through: []int{0, 1}}}
}

// swap has two differentiable outputs: (a, b) -> (2b, 3a).
func swap(n int) Op {
	scale := func(dst, src core.Tensor, by float32) {
		for i, v := range src.Float32s() {
			dst.Float32s()[i] = by * v
		}
	}
	return Op{Name: "swap", Outputs: []Spec{Float32(n), Float32(n)}, Diff: 2,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			scale(out[0], in[1], 2)
			scale(out[1], in[0], 3)
			return nil
		},
		Backward: &Backward{Wrt: []int{0, 1}, Run: func(_ context.Context, g *Grads) error {
			scale(g.DIn[1], g.DOut[0], 2)
			scale(g.DIn[0], g.DOut[1], 3)
			return nil
		}}}
}

// total is the scalar sum.
func total() Op {
	return Op{Name: "total", Outputs: []Spec{Float32()},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			var s float32
			for _, v := range in[0].Float32s() {
				s += v
			}
			out[0].Float32s()[0] = s
			return nil
		},
		Backward: &Backward{Wrt: []int{0}, Run: func(_ context.Context, g *Grads) error {
			d := g.DIn[0].Float32s()
			for i := range d {
				d[i] = g.DOut[0].Float32s()[0]
			}
			return nil
		}}}
}

func values(rng *rand.Rand, n int) core.Tensor {
	v := make([]float32, n)
	for i := range v {
		v[i] = rng.Float32()*2 - 1
	}
	return core.FromFloat32(v, n)
}

// builders make a loss from two parameters; each exercises one shape of graph.
var builders = map[string]func(g *Graph, a, b *Value) *Value{
	"chain":           func(g *Graph, a, b *Value) *Value { return g.Apply(mul(5), g.Apply(mul(5), a, b), b) },
	"fan-out":         func(g *Graph, a, b *Value) *Value { x := g.Apply(mul(5), a, b); return g.Apply(mul(5), x, x) },
	"fan-out of four": fourWays,
	"through":         func(g *Graph, a, b *Value) *Value { return g.Apply(mul(5), g.Apply(add(5), a, b), a) },
	"residual":        residual,
	"two outputs": func(g *Graph, a, b *Value) *Value {
		o := g.ApplyAll(swap(5), a, b)
		return g.Apply(mul(5), o[0],
			o[1])
	},
	"outputs reused": func(g *Graph, a, b *Value) *Value {
		o := g.ApplyAll(swap(5), a, b)
		x := g.Apply(mul(5), o[0], o[1])
		return g.Apply(add(5), g.Apply(mul(5), x, o[1]), g.Apply(mul(5), o[0], o[0]))
	},
	"in place": func(g *Graph, a, b *Value) *Value {
		x := g.Apply(add(5), g.Apply(mul(5), a, b), g.Apply(mul(5), b, b))
		return g.Apply(mul(5), g.Apply(add(5), x, a), x)
	},
}

func fourWays(g *Graph, a, b *Value) *Value {
	x := g.Apply(mul(5), a, b)
	y := g.Apply(add(5), g.Apply(mul(5), x, a), g.Apply(mul(5), x, b))
	return g.Apply(add(5), y, g.Apply(mul(5), x, x))
}

func residual(g *Graph, a, b *Value) *Value {
	h := a
	for range 3 {
		h = g.Apply(add(5), h, g.Apply(mul(5), h, b))
	}
	return h
}

func TestGradientsEqualFiniteDifferences(t *testing.T) {
	for name, build := range builders {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			a, b := values(rng, 5), values(rng, 5)
			g := New(Heap{})
			pa, pb := g.Param("a", a), g.Param("b", b)
			p, err := g.Compile(g.Apply(total(), build(g, pa, pb)), pa, pb)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			run(t, p)
			got := slices.Concat(p.Grad(pa).Float32s(), p.Grad(pb).Float32s()) // before another run
			for i, x := range [][]float32{a.Float32s(), b.Float32s()} {
				for j := range x {
					want := difference(t, p, &x[j])
					if d := got[5*i+j]; !(math.Abs(float64(d)-want) <= 2e-3) {
						t.Errorf("gradient %d of parameter %d is %g, finite difference %g", j, i, d, want)
					}
				}
			}
		})
	}
}

func run(t *testing.T, p *Program) {
	t.Helper()
	if _, err := p.Forward(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := p.Backward(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func difference(t *testing.T, p *Program, x *float32) float64 {
	t.Helper()
	const h = 1.0 / 256
	at := func(v float32) float64 {
		keep := *x
		*x = v
		defer func() { *x = keep }()
		loss, err := p.Forward(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return loss
	}
	return (at(*x+h) - at(*x-h)) / (2 * h)
}

func TestBuffersThatLiveTogetherNeverOverlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var slots []*slot
		for range 1 + rng.IntN(40) {
			first := rng.IntN(50)
			slots = append(slots, &slot{spec: Float32(1 + rng.IntN(300)), first: first, last: first + rng.IntN(20)})
		}
		size := layout(slices.Clone(slots))
		for i, a := range slots {
			if a.offset%align != 0 || a.offset+a.spec.bytes() > size {
				t.Fatalf("offset %d, %d bytes, in a block of %d", a.offset, a.spec.bytes(), size)
			}
			for _, b := range slots[:i] {
				together := a.first <= b.last && b.first <= a.last
				overlap := a.offset < b.offset+b.spec.bytes() && b.offset < a.offset+a.spec.bytes()
				if together && overlap {
					t.Fatalf("overlap: [%d,%d]@%d and [%d,%d]@%d", a.first, a.last, a.offset, b.first, b.last, b.offset)
				}
			}
		}
	}
}

func TestDeadBuffersAreReused(t *testing.T) {
	for op, buffers := range map[*Op]int{new(mul(1000)): 2, new(add(1000)): 1} { // an addition overwrites what it reads
		g := New(Heap{})
		x := g.Input("x", values(rand.New(rand.NewPCG(1, 1)), 1000))
		h := x
		for range 50 {
			h = g.Apply(*op, h, x)
		}
		p, err := g.Compile(g.Apply(total(), h))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Bytes(); got > (buffers+1)*4096 {
			t.Errorf("50 operations %s one after the other hold %d bytes, want %d buffers and a scalar", op.Name, got, buffers)
		}
	}
}

func TestUnneededInstructionsAreDropped(t *testing.T) {
	g := New(Heap{})
	x := g.Param("x", values(rand.New(rand.NewPCG(1, 1)), 5))
	g.Apply(mul(5), x, x)
	p, err := g.Compile(g.Apply(total(), x), x)
	if err != nil {
		t.Fatal(err)
	}
	if p.Len() != 2 {
		t.Errorf("%d instructions, want the sum and its gradient", p.Len())
	}
}

func TestCompileRefuses(t *testing.T) {
	g := New(Heap{})
	x, y := g.Param("x", values(rand.New(rand.NewPCG(1, 1)), 5)), g.Param("y", values(rand.New(rand.NewPCG(1, 2)), 5))
	if _, err := g.Compile(x, x); err == nil || !strings.Contains(err.Error(), "scalar") {
		t.Errorf("a vector as the loss: %v", err)
	}
	if _, err := g.Compile(x); err == nil || !strings.Contains(err.Error(), "scalar") {
		t.Errorf("a vector as the loss, without a backward pass: %v", err)
	}
	if _, err := g.Compile(g.Apply(total(), x), x, y); err == nil {
		t.Error("a parameter that gets no gradient was accepted")
	}
	g = New(Heap{})
	x = g.Param("x", values(rand.New(rand.NewPCG(1, 1)), 5))
	if _, err := g.Compile(g.Apply(total(), x.Reshape(2, 3)), x); err == nil {
		t.Error("a reshape to another size was accepted")
	}
}

func TestFirstNonFiniteNamesTheInstruction(t *testing.T) {
	for largest, want := range map[float32]string{1e9: "", 1e10: "layers.3", 1e20: "layers.2"} { // x^2, and x^4
		g := New(Heap{})
		x := g.Param("x", core.FromFloat32([]float32{1, largest}, 2))
		y := x
		for _, path := range []string{"layers.2", "layers.3"} {
			leave := g.Enter(path)
			y = g.Apply(mul(2), y, y)
			leave()
		}
		p, err := g.Compile(g.Apply(total(), y), x)
		if err != nil {
			t.Fatal(err)
		}
		path, op, err := p.FirstNonFinite(t.Context())
		if finite := errors.Is(err, ErrFinite); path != want || finite != (want == "") || !finite && (op != "mul forward" || err != nil) {
			t.Errorf("up to %g: got %q %q %v, want %q", largest, path, op, err, want)
		}
	}
}

func TestRunsAreRepeatable(t *testing.T) {
	g := New(Heap{})
	rng := rand.New(rand.NewPCG(1, 2))
	a, b := g.Param("a", values(rng, 5)), g.Param("b", values(rng, 5))
	p, err := g.Compile(g.Apply(total(), builders["in place"](g, a, b)), a, b)
	if err != nil {
		t.Fatal(err)
	}
	run(t, p)
	first := fmt.Sprint(p.Grad(a).Float32s(), p.Grad(b).Float32s())
	run(t, p)
	if second := fmt.Sprint(p.Grad(a).Float32s(), p.Grad(b).Float32s()); first != second {
		t.Errorf("second run: %s, first: %s", second, first)
	}
}

// BenchmarkCompile shows how compiling grows with the number of operations.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{500, 1000, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				g := New(Heap{})
				w := g.Param("w", values(rand.New(rand.NewPCG(1, 2)), 5))
				h := w
				for range n {
					h = g.Apply(add(5), h, g.Apply(mul(5), h, w))
				}
				p, err := g.Compile(g.Apply(total(), h), w)
				if err != nil {
					b.Fatal(err)
				}
				p.Close()
			}
		})
	}
}

// BenchmarkOverhead measures what one instruction costs beside its arithmetic.
func BenchmarkOverhead(b *testing.B) {
	g := New(Heap{})
	w := g.Param("w", values(rand.New(rand.NewPCG(1, 2)), 5))
	h := w
	for range 1000 {
		h = g.Apply(mul(5), h, w)
	}
	p, err := g.Compile(g.Apply(total(), h), w)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Forward(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*p.Len()), "ns/instr")
}

// TestOnlyWhatDiesIsOverwritten asks the planner about every reason not to reuse the
// first input's place.
func TestOnlyWhatDiesIsOverwritten(t *testing.T) {
	var other core.Memory = &struct{ Heap }{}
	for name, c := range map[string]struct {
		change func(in, out *slot) []ref
		want   bool
	}{
		"a dying buffer":            {func(in, _ *slot) []ref { return []ref{{slot: in}} }, true},
		"one that is read later":    {func(in, _ *slot) []ref { in.last = 9; return []ref{{slot: in}} }, false},
		"one of another size":       {func(in, _ *slot) []ref { in.spec = Float32(7); return []ref{{slot: in}} }, false},
		"a leaf":                    {func(in, _ *slot) []ref { in.leaf = true; return []ref{{slot: in}} }, false},
		"memory that a plugin owns": {func(in, _ *slot) []ref { in.mem = other; return []ref{{slot: in}} }, false},
		"one that comes twice":      {func(in, _ *slot) []ref { return []ref{{slot: in}, {slot: in}} }, false},
		"one whose place lives on": {func(in, _ *slot) []ref { in.root = &slot{last: 9}; return []ref{{slot: in}} },
			false},
		"beside another that stays": {func(in,
			_ *slot) []ref {
			o := &slot{last: 9}
			o.root = o
			return []ref{{slot: in}, {slot: o}}
		}, true},
		"beside a leaf that is read": {func(in, _ *slot) []ref { return []ref{{slot: in}, {slot: &slot{leaf: true}}} },
			true},
	} {
		mem := core.Memory(Heap{})
		in, out := &slot{spec: Float32(8), mem: mem, last: 5}, &slot{spec: Float32(8), mem: mem}
		in.root = in
		if got := overwritable(c.change(in, out), in, out, 5); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestASumOfOneValueWithItself adds a gradient that arrives three times from one place.
func TestASumOfOneValueWithItself(t *testing.T) {
	g := New(Heap{})
	x := g.Param("x", values(rand.New(rand.NewPCG(1, 1)), 5))
	y := g.Apply(mul(5), x, x)
	p, err := g.Compile(g.Apply(total(), g.Apply(add(5), g.Apply(add(5), y, y), y)), x)
	if err != nil {
		t.Fatal(err)
	}
	run(t, p)
	for i, d := range p.Grad(x).Float32s() {
		if want := 6 * x.slot.tensor.Float32s()[i]; !(math.Abs(float64(d-want)) <= 1e-6) {
			t.Errorf("gradient %d is %g, want %g", i, d, want)
		}
	}
}

func TestARunAllocatesNothing(t *testing.T) {
	g := New(Heap{})
	rng := rand.New(rand.NewPCG(1, 2))
	a, b := g.Param("a", values(rng, 5)), g.Param("b", values(rng, 5))
	h := a
	for range 50 {
		leave := g.Checkpoint()
		h = g.Apply(add(5), g.Apply(mul(5), h, b), g.Apply(double(5, true, nil), g.Apply(double(5, true, nil), h)))
		leave()
	}
	p, err := g.Compile(g.Apply(total(), h), a, b)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { run(t, p) }); n != 0 {
		t.Errorf("a run of %d instructions allocates %g times", p.Len(), n)
	}
}
