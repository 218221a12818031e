package autograd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// TestSumsOverRunsAreThoseOfTheirGradients runs graphs with other parameters each time: sums have the
// bits of gradients that were kept apart.
func TestSumsOverRunsAreThoseOfTheirGradients(t *testing.T) {
	graphs := map[string]func(g *Graph) (*Value, []*Value){}
	for name, build := range builders {
		graphs[name] = func(g *Graph) (*Value, []*Value) {
			rng := rand.New(rand.NewPCG(5, 6))
			a, b := g.Param("a", values(rng, 5)), g.Param("b", values(rng, 5))
			return g.Apply(total(), build(g, a, b)), []*Value{a, b}
		}
	}
	for seed := range uint64(100) {
		graphs[fmt.Sprintf("random %d", seed)] = func(g *Graph) (*Value, []*Value) { return randomGraph(g, seed, true) }
	}
	for name, record := range graphs {
		alone, summed := severalRuns(t, record, nil), severalRuns(t, record, &struct{ Heap }{})
		want := alone[2] // which begins anew
		for _, run := range alone[3:] {
			for i, v := range run {
				want[i] += v
			}
		}
		if got := summed[len(summed)-1]; !slices.Equal(got, want) {
			t.Errorf("%s: sums %v, want %v", name, got, want)
		}
	}
}

// severalRuns returns the gradients after each of five runs, summed in mem unless it is nil.
func severalRuns(t *testing.T, record func(g *Graph) (*Value, []*Value), mem core.Memory) (after [][]float32) {
	t.Helper()
	g := New(Heap{})
	loss, params := record(g)
	if mem != nil {
		g.Accumulate(mem)
	}
	p, err := g.Compile(loss, params...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range 5 {
		var grads []float32
		for _, v := range params {
			x := p.Tensor(v).Float32s()
			copy(x, values(rng, len(x)).Float32s())
		}
		p.Adding(i != 0 && i != 2)
		run(t, p)
		for _, v := range params {
			grads = append(grads, p.Grad(v).Float32s()...)
		}
		after = append(after, grads)
	}
	return after
}

// weighted is y = x + sum(w): its gradient of w, as large as w, lies in mem.
func weighted(n, width int, mem core.Memory) Op {
	return Op{Name: "weighted", Outputs: []Spec{Float32(n)}, Memory: mem,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			put(out[0], in[0], 1, false)
			for _, w := range in[1].Float32s() {
				out[0].Float32s()[0] += w
			}
			return nil
		},
		Backward: &Backward{Through: []int{0}, Wrt: []int{1}, Run: func(_ context.Context, g *Grads) error {
			for i := range width {
				g.DIn[1].Float32s()[i] = g.DOut[0].Float32s()[0]
			}
			return nil
		}}}
}

// TestGradientsThatAreSummedShareOneBuffer has ten weights, in the graph's memory and in a plugin's:
// there are ten sums, and room for one more gradient.
func TestGradientsThatAreSummedShareOneBuffer(t *testing.T) {
	const weights, width = 10, 1 << 12
	for name, mem := range map[string]core.Memory{"plain": nil, "of a plugin": &struct{ Heap }{}} {
		t.Run(name, func(t *testing.T) {
			g := New(Heap{})
			g.Accumulate(&struct{ Heap }{})
			x := g.Input("x", values(rand.New(rand.NewPCG(1, 2)), 1))
			var params []*Value
			for range weights {
				w := g.Param("w", values(rand.New(rand.NewPCG(3, 4)), width))
				params, x = append(params, w), g.Apply(weighted(1, width, mem), x, w)
			}
			p, err := g.Compile(g.Apply(total(), x), params...)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if got, limit := p.Bytes(), 4*width*(weights+1)+2048; got > limit {
				t.Errorf("the program holds %d bytes, want %d at most", got, limit)
			}
		})
	}
}
