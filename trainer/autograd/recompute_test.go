package autograd

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// TestRegionsChangeNoBit runs random graphs with and without regions, some within others.
func TestRegionsChangeNoBit(t *testing.T) {
	repeated := 0
	for seed := range uint64(300) {
		want, _ := randomRegions(t, seed, false)
		got, again := randomRegions(t, seed, true)
		if !slices.Equal(got, want) {
			t.Fatalf("graph %d: %v, want %v", seed, got, want)
		}
		repeated += again
	}
	if repeated < 100 {
		t.Errorf("%d instructions ran again in all graphs: the test tests little", repeated)
	}
}

// randomRegions runs a random graph, twice, and returns what can be read of it.
func randomRegions(t *testing.T, seed uint64, regions bool) (results []float32, repeated int) {
	t.Helper()
	const n = 4
	rng := rand.New(rand.NewPCG(seed, 8))
	g := New(Heap{})
	var plugin core.Memory = &struct{ Heap }{}
	params := []*Value{g.Param("a", values(rng, n)), g.Param("b", values(rng, n))}
	pool := slices.Clone(params)
	pick := func() *Value { return pool[len(pool)-1-rng.IntN(min(len(pool), 3))] }
	var leave []func()
	var kept []*Value
	for range 6 + rng.IntN(10) {
		switch rng.IntN(3) {
		case 0:
			if regions {
				leave = append(leave, g.Checkpoint())
			}
		case 1:
			if len(leave) > 0 {
				leave[len(leave)-1]()
				leave = leave[:len(leave)-1]
			}
		}
		a, b := pick(), pick()
		op := mul(n)
		op.Memory = []core.Memory{nil, nil, plugin}[rng.IntN(3)]
		if rng.IntN(3) == 0 {
			op = add(n)
		}
		if rng.IntN(4) == 0 {
			op = addSquare(n)
			op.Memory = plugin
			pool = append(pool, g.ApplyAll(op, a, b)...)
		} else {
			pool = append(pool, g.Apply(op, a, b))
		}
		if rng.IntN(6) == 0 {
			kept = append(kept, pool[len(pool)-1].Keep())
		}
	}
	for _, l := range slices.Backward(leave) {
		l()
	}
	last := g.Apply(add(n), g.Apply(mul(n), pick(), params[0]), g.Apply(mul(n), pick(), params[1]))
	p, err := g.Compile(g.Apply(total(), last), params...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	run(t, p)
	run(t, p)
	for _, v := range append(kept, params...) {
		results = append(results, p.Tensor(v).Float32s()...)
	}
	for _, v := range params {
		results = append(results, p.Grad(v).Float32s()...)
	}
	for _, in := range p.tape {
		if in.again {
			repeated++
		}
	}
	return results, repeated
}

// chain compiles blocks of squares, which the backward pass needs the roots of.
func chain(t *testing.T, blocks, width, n int, checkpoint bool) *Program {
	t.Helper()
	g := New(Heap{})
	x := g.Param("x", values(rand.New(rand.NewPCG(1, 3)), n))
	h := x
	for range blocks {
		leave := func() {}
		if checkpoint {
			leave = g.Checkpoint()
		}
		for range width {
			h = g.Apply(square(n), h)
		}
		leave()
	}
	p, err := g.Compile(g.Apply(total(), h), x)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// square is y = x * x.
func square(n int) Op {
	op := mul(n)
	op.Name = "square"
	op.Forward = func(_ context.Context, in, out []core.Tensor) error {
		for i, v := range in[0].Float32s() {
			out[0].Float32s()[i] = v * v
		}
		return nil
	}
	op.Backward = &Backward{Inputs: []int{0}, Wrt: []int{0}, Run: func(_ context.Context, g *Grads) error {
		for i, d := range g.DOut[0].Float32s() {
			g.DIn[0].Float32s()[i] = 2 * d * g.In[0].Float32s()[i]
		}
		return nil
	}}
	return op
}

// TestOnlyWhatLeavesARegionIsHeld: without regions the roots of 8*6 squares are held at
// once; with them what each region but the last hands on, those within one region, and
// the gradients at hand.
func TestOnlyWhatLeavesARegionIsHeld(t *testing.T) {
	const n = 1 << 10
	plain, less := chain(t, 8, 6, n, false), chain(t, 8, 6, n, true)
	if got := plain.Bytes() / (4 * n); got < 8*6-1 {
		t.Errorf("without regions %d buffers are held, want all", got)
	}
	if got, want := less.Bytes()/(4*n), 7+6+2; got > want {
		t.Errorf("with regions %d buffers are held, want %d", got, want)
	}
	run(t, plain)
	run(t, less)
	calls := map[string]int{}
	for _, s := range less.Stats() {
		calls[s.Op+" "+s.PassName()] = s.Calls
	}
	// The last square of a region leaves it, so that it is not computed again.
	if calls["square forward"] != 48 || calls["square recompute"] != 8*5 || calls["square backward"] != 48 {
		t.Errorf("calls %v", calls)
	}
}
