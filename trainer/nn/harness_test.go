package nn

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
)

// newContext starts a graph on the Go heap; its batch is one document a row, of token 0.
func newContext(t *testing.T, b, s int) *Context {
	t.Helper()
	c, err := NewContext(autograd.Heap{}, b, s, s)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c, plainBatch(b, s))
	return c
}

func fill(t *testing.T, c *Context, b data.Batch) {
	t.Helper()
	if err := c.Batch().Fill(b, max(b.Targets(), 1)); err != nil {
		t.Fatal(err)
	}
}

func plainBatch(b, s int) data.Batch {
	n := b * s
	out := data.Batch{B: b, S: s, IDs: make([]int32, n), Labels: make([]int32, n), Positions: make([]int32, n),
		Segments: make([]int32, n)}
	for i := range n {
		out.Positions[i], out.Segments[i] = int32(i%s), 1
	}
	return out
}

// randomBatch has random tokens, each of which is a target.
func randomBatch(rng *rand.Rand, b, s, vocab int) data.Batch {
	out := plainBatch(b, s)
	for i := range out.IDs {
		out.IDs[i] = rng.Int32N(int32(vocab))
	}
	copy(out.Labels, out.IDs)
	return out
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func normal(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// sums records a scalar that has upstream[i] as the gradient of outs[i]: the sum of all
// products of the two. Its exact value is left in total.
func sums(c *Context, outs []*autograd.Value, upstream [][]float32, total *float64) *autograd.Value {
	b := &autograd.Backward{Run: func(_ context.Context, g *autograd.Grads) error {
		for i, d := range g.DIn {
			if !d.IsZero() {
				copy(d.Float32s(), upstream[i])
			}
		}
		return nil
	}}
	for i := range outs {
		b.Wrt = append(b.Wrt, i)
	}
	return c.G.Apply(autograd.Op{Name: "sums", Outputs: []autograd.Spec{autograd.Float32()}, Backward: b,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			*total = 0
			for i, x := range in {
				for j, v := range x.Float32s() {
					*total += float64(v) * float64(upstream[i][j])
				}
			}
			out[0].Float32s()[0] = float32(*total)
			return nil
		}}, outs...)
}

// execute compiles the graph of outs with their upstream gradients and runs both passes.
func execute(t *testing.T, c *Context, outs []*autograd.Value, upstream [][]float32,
	wrt ...*autograd.Value) *autograd.Program {
	t.Helper()
	for _, o := range outs {
		o.Keep()
	}
	p, err := c.G.Compile(sums(c, outs, upstream, new(float64)), wrt...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Backward(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// run returns the values of outs and the gradients of wrt; see execute.
func run(t *testing.T, c *Context, outs []*autograd.Value, upstream [][]float32,
	wrt ...*autograd.Value) (values, grads [][]float32) {
	t.Helper()
	p := execute(t, c, outs, upstream, wrt...)
	for _, o := range outs {
		values = append(values, p.Tensor(o).Float32s())
	}
	for _, w := range wrt {
		grads = append(grads, p.Grad(w).Float32s())
	}
	return values, grads
}

// forward compiles and runs the forward pass alone and returns the value of out.
func forward(t *testing.T, c *Context, out *autograd.Value) []float32 {
	t.Helper()
	values, _ := run(t, c, []*autograd.Value{out}, [][]float32{make([]float32, out.Shape().Elems())})
	return values[0]
}

// param adds a trainable leaf with these values.
func param(c *Context, name string, v []float32, shape ...int) *autograd.Value {
	return c.G.Param(name, core.FromFloat32(v, shape...))
}

// near fails when got is further from want than limit, relative to the largest element.
func near[W float32 | float64](t *testing.T, what string, got []float32, want []W, limit float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return
	}
	var diff, scale float64
	at := 0
	for i, w := range want {
		d := math.Abs(float64(got[i]) - float64(w))
		if !(d <= diff) {
			diff, at = d, i
		}
		scale = math.Max(scale, math.Abs(float64(w)))
	}
	if !(diff <= limit*scale) {
		t.Errorf("%s: element %d is %v, want %v: off by %.3g of the largest, limit %.3g", what, at, got[at], want[at],
			diff/scale, limit)
	}
}

func equal[E comparable](t *testing.T, what string, got, want []E) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: element %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}
