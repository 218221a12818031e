package autograd

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// addSquare is h = a + b and y = h*h/8, y first: a and b have one gradient, and y can be
// had from h.
func addSquare(n int) Op {
	squares := func(y, h []float32) {
		for i, v := range h {
			y[i] = v * v / 8
		}
	}
	return Op{Name: "add_square", Outputs: []Spec{Float32(n), Float32(n)}, Diff: 2,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			h := out[1].Float32s()
			for i, v := range in[0].Float32s() {
				h[i] = v + in[1].Float32s()[i]
			}
			squares(out[0].Float32s(), h)
			return nil
		},
		Again: &Again{Outputs: []int{1}, Writes: []int{0}, Run: func(_ context.Context, in, out []core.Tensor) error {
			squares(out[0].Float32s(), in[0].Float32s())
			return nil
		}},
		Backward: &Backward{Outputs: []int{1}, Wrt: []int{0}, Shared: [][2]int{{1, 0}}, Zeros: true,
			Run: func(_ context.Context, g *Grads) error {
				for i, h := range g.Out[1].Float32s() {
					g.DIn[0].Float32s()[i] = h/4*g.DOut[0].Float32s()[i] + g.DOut[1].Float32s()[i]
				}
				return nil
			}}}
}

func TestASharedGradientReachesBothInputs(t *testing.T) {
	const n = 3
	for name, build := range map[string]func(a, b *Value) *Value{
		"both outputs": func(a, b *Value) *Value {
			out := a.g.ApplyAll(addSquare(n), a, b)
			return a.g.Apply(mul(n), out[0], out[1])
		},
		"only the first":  func(a, b *Value) *Value { return a.g.ApplyAll(addSquare(n), a, b)[0] },
		"only the second": func(a, b *Value) *Value { return a.g.Apply(mul(n), a.g.ApplyAll(addSquare(n), a, b)[1], a) },
		"one value twice": func(a, b *Value) *Value {
			c := a.g.Apply(mul(n), a, b)
			return a.g.ApplyAll(addSquare(n), c, c)[0]
		},
		"one of another": func(a, b *Value) *Value {
			out := a.g.ApplyAll(addSquare(n), a, b)
			out = a.g.ApplyAll(addSquare(n), out[0], out[1])
			return a.g.Apply(mul(n), out[0], b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			g := New(Heap{})
			a, b := g.Param("a", values(rng, n)), g.Param("b", values(rng, n))
			p, err := g.Compile(g.Apply(total(), build(a, b)), a, b)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			run(t, p)
			grads := [][]float32{slices.Clone(p.Grad(a).Float32s()), slices.Clone(p.Grad(b).Float32s())}
			for k, v := range []*Value{a, b} {
				for i, got := range grads[k] {
					want := difference(t, p, &p.Tensor(v).Float32s()[i])
					if d := float64(got) - want; !(d >= -1e-2 && d <= 1e-2) {
						t.Errorf("gradient %v at %d, differences give %v", got, i, want)
					}
				}
			}
		})
	}
}

// TestWhatIsComputedAgainFromOutputsNeedsNoInputs: of each block only h is held, and not
// the square that makes its other term, which is in the region before.
func TestWhatIsComputedAgainFromOutputsNeedsNoInputs(t *testing.T) {
	const n, blocks = 1 << 10, 8
	build := func(again bool) *Program {
		g := New(Heap{})
		x := g.Param("x", values(rand.New(rand.NewPCG(1, 3)), n))
		h, term := x, x
		for range blocks {
			leave := g.Checkpoint()
			op := addSquare(n)
			if !again {
				op.Again = nil
			}
			out := g.ApplyAll(op, h, term)
			h, term = out[1], g.Apply(square(n), g.Apply(square(n), out[0]))
			leave()
		}
		p, err := g.Compile(g.Apply(total(), g.Apply(add(n), h, term)), x)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	with, without := build(true), build(false)
	run(t, with)
	run(t, without)
	// Beside h of each block: the gradients of h and of a square, the two squares of the
	// block at hand, and one more while a square is computed.
	if got, want := with.Bytes()/(4*n), blocks+5; got > want {
		t.Errorf("%d buffers are held, want %d", got, want)
	}
	if got := without.Bytes() / (4 * n); got < 2*blocks-1 {
		t.Errorf("%d buffers are held without it: the test tests little", got)
	}
}
