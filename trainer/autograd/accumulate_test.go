package autograd

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// put writes by * src, or adds it.
func put(dst, src core.Tensor, by float32, add bool) {
	if dst.IsZero() {
		return
	}
	for i, v := range src.Float32s() {
		if !add {
			dst.Float32s()[i] = 0
		}
		dst.Float32s()[i] += by * v
	}
}

// lin is y = 2a - b. Its gradients can be added to sums if adds is set.
func lin(n int, adds bool, mem core.Memory) Op {
	op := Op{Name: "lin", Outputs: []Spec{Float32(n)}, Memory: mem,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			put(out[0], in[0], 2, false)
			put(out[0], in[1], -1, true)
			return nil
		},
		Backward: &Backward{Wrt: []int{0, 1}, Run: func(_ context.Context, g *Grads) error {
			put(g.DIn[0], g.DOut[0], 2, g.Add[0])
			put(g.DIn[1], g.DOut[0], -1, g.Add[1])
			return nil
		}}}
	if adds {
		op.Backward.Accumulate = []int{0, 1}
	}
	return op
}

// double is y = 2x, with the same choice.
func double(n int, adds bool, mem core.Memory) Op {
	op := Op{Name: "double", Outputs: []Spec{Float32(n)}, Memory: mem,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			put(out[0], in[0], 2, false)
			return nil
		},
		Backward: &Backward{Wrt: []int{0}, Run: func(_ context.Context, g *Grads) error {
			put(g.DIn[0], g.DOut[0], 2, g.Add[0])
			return nil
		}}}
	if adds {
		op.Backward.Accumulate = []int{0}
	}
	return op
}

// TestSumsThatTheTapeKeeps counts the sums left for what models are made of. Each is
// built from f, whose gradients can be added to sums, and p, whose gradient lies in
// memory that only its own process may write.
func TestSumsThatTheTapeKeeps(t *testing.T) {
	type unary func(x *Value) *Value
	for name, c := range map[string]struct {
		build func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value
		sums  int
	}{
		"x + f(x)": {func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value { return add(x, f(x)) },
			1}, // f reads the gradient that passes through
		"x + f(f(x))": {func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value { return add(x, f(f(x))) },
			0},
		"f(x) + f(x)": {func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value { return add(f(x), f(x)) },
			0},
		"f(x) + f(x) + x": {func(x *Value, f, p unary,
			add func(a, b *Value) *Value) *Value {
			return add(add(f(x), f(x)), x)
		},
			1}, // both read the gradient that passes through
		"x + x": {func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value { return add(x, x) }, 1},
		"three residual blocks": {func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value {
			for range 3 {
				x = add(x, f(f(x)))
			}
			return x
		}, 0},
		"p(x) + p(x)": {func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value { return add(p(x), p(x)) }, 1},
		"p(x) + f(x) + f(x)": {func(x *Value, f, p unary,
			add func(a, b *Value) *Value) *Value {
			return add(add(p(x), f(x)), f(x))
		},
			1},
		"x + p(f(x))": {func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value { return add(x, p(f(x))) }, 0},
		"x + f(p(x))": {func(x *Value, f, p unary, add func(a, b *Value) *Value) *Value { return add(x, f(p(x))) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := New(Heap{})
			var plugin core.Memory = &struct{ Heap }{}
			a := g.Param("a", values(rand.New(rand.NewPCG(1, 2)), 5))
			f := func(x *Value) *Value { return g.Apply(double(5, true, nil), x) }
			p := func(x *Value) *Value { return g.Apply(double(5, false, plugin), x) }
			y := c.build(f(a), f, p, func(a, b *Value) *Value { return g.Apply(add(5), a, b) })
			prog, err := g.Compile(g.Apply(total(), y), a)
			if err != nil {
				t.Fatal(err)
			}
			sums := 0
			for _, in := range prog.tape {
				if in.sum {
					sums++
				}
			}
			if sums != c.sums {
				t.Errorf("%d sums are left, want %d", sums, c.sums)
			}
		})
	}
}

// TestAddedGradientsEqualSummedOnes builds random graphs with and without operations that
// add their gradients, in several memories. All values are small integers, so that the
// order of additions does not matter. The second run would show what the first left.
func TestAddedGradientsEqualSummedOnes(t *testing.T) {
	graphs := 0
	for seed := range uint64(300) {
		want, _ := randomGradients(t, seed, false)
		got, added := randomGradients(t, seed, true)
		if !slices.Equal(got, want) {
			t.Fatalf("graph %d: gradients %v, want %v", seed, got, want)
		}
		if added {
			graphs++
		}
	}
	if graphs < 50 {
		t.Errorf("gradients were added to sums in %d graphs only", graphs)
	}
}

// randomGradients runs a random graph over two parameters twice. A gradient may be kept
// that others read, too.
func randomGradients(t *testing.T, seed uint64, adds bool) (grads []float32, added bool) {
	t.Helper()
	g := New(Heap{})
	loss, params := randomGraph(g, seed, adds)
	p, err := g.Compile(loss, params...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	run(t, p)
	run(t, p)
	for _, in := range p.tape {
		added = added || in.over != nil
	}
	return slices.Concat(p.Grad(params[0]).Float32s(), p.Grad(params[1]).Float32s()), added
}

// randomGraph records one, over two parameters of small integers.
func randomGraph(g *Graph, seed uint64, adds bool) (loss *Value, params []*Value) {
	const n = 3
	rng := rand.New(rand.NewPCG(seed, 7))
	var plugin core.Memory = &struct{ Heap }{}
	small := func() core.Tensor {
		return core.FromFloat32([]float32{float32(rng.IntN(5) - 2), float32(rng.IntN(5) - 2), float32(rng.IntN(5) - 2)}, n)
	}
	params = []*Value{g.Param("a", small()), g.Param("b", small())}
	pool := []*Value{g.Apply(add(n), params[0], params[1])}
	pool = append(pool, params...)
	used := map[*Value]bool{}
	pick := func() *Value { return pool[len(pool)-1-rng.IntN(min(len(pool), 4))] }
	for range 4 + rng.IntN(7) {
		a, b := pick(), pick()
		mem := []core.Memory{nil, nil, plugin}[rng.IntN(3)]
		can := adds && mem == nil
		kind := rng.IntN(4)
		used[a], used[b] = true, used[b] || kind != 2
		switch kind {
		case 0:
			pool = append(pool, g.Apply(add(n), a, b))
		case 1:
			pool = append(pool, g.Apply(lin(n, can, mem), a, b))
		case 2:
			pool = append(pool, g.Apply(double(n, can, mem), a))
		case 3:
			pool = append(pool, g.ApplyAll(swap(n), a, b)...)
		}
	}
	last := pool[len(pool)-1]
	for _, v := range pool[:len(pool)-1] { // all have a part in the loss, with some seeds only through those made of them
		if seed%3 == 0 || !used[v] {
			last = g.Apply(add(n), last, v)
		}
	}
	return g.Apply(total(), last), params
}

// TestATiedWeightHasOneGradient is a table that is looked up first and multiplied with
// last: both add to one buffer.
func TestATiedWeightHasOneGradient(t *testing.T) {
	const n = 1 << 16
	g := New(Heap{})
	w := g.Param("w", values(rand.New(rand.NewPCG(1, 2)), n))
	narrow := Op{Name: "narrow", Outputs: []Spec{Float32(1)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			out[0].Float32s()[0] = in[0].Float32s()[0]
			return nil
		},
		Backward: &Backward{Wrt: []int{0}, Accumulate: []int{0}, Run: func(_ context.Context, g *Grads) error {
			if d := g.DIn[0].Float32s(); !g.Add[0] {
				clear(d)
			}
			g.DIn[0].Float32s()[0] += g.DOut[0].Float32s()[0]
			return nil
		}}}
	p, err := g.Compile(g.Apply(total(), g.Apply(add(1), g.Apply(narrow, w), g.Apply(narrow, w))), w)
	if err != nil {
		t.Fatal(err)
	}
	if got, limit := p.Bytes(), 4*n+1024; got > limit {
		t.Errorf("the program holds %d bytes, want one gradient and little more: %d", got, limit)
	}
	run(t, p)
	if d := p.Grad(w).Float32s(); d[0] != 2 || d[1] != 0 {
		t.Errorf("gradient %v, want 2, 0, ...", d[:2])
	}
}
