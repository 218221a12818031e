package autograd

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

// squares is the scalar sum of a^2*b, which computes its gradients ahead. gradients tells
// how many it was asked for.
func squares(mem core.Memory, gradients *int) Op {
	return Op{Name: "squares", Outputs: []Spec{Float32()}, Memory: mem, Backward: &Backward{Ahead: []int{0, 1}},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			a, b, sum := in[0].Float32s(), in[1].Float32s(), float32(0)
			*gradients = len(out) - 1
			for i := range a {
				sum += a[i] * a[i] * b[i]
				if len(out) > 1 {
					out[1].Float32s()[i], out[2].Float32s()[i] = 2*a[i]*b[i], a[i]*a[i]
				}
			}
			out[0].Float32s()[0] = sum
			return nil
		}}
}

func TestGradientsComputedAheadEqualFiniteDifferences(t *testing.T) {
	for name, build := range map[string]func(g *Graph, a, b *Value) (x, y *Value){
		"of parameters": func(_ *Graph, a, b *Value) (x, y *Value) { return a, b },
		"of values":     func(g *Graph, a, b *Value) (x, y *Value) { return g.Apply(mul(5), a, b), g.Apply(mul(5), b, b) },
		"of both":       func(g *Graph, a, b *Value) (x, y *Value) { return g.Apply(add(5), a, b), a },
		"of one twice":  func(_ *Graph, a, b *Value) (x, y *Value) { return a, a },
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			a, b := values(rng, 5), values(rng, 5)
			g, n := New(Heap{}), 0
			pa, pb := g.Param("a", a), g.Param("b", b)
			x, y := build(g, pa, pb)
			wrt, parameters := []*Value{pa}, [][]float32{a.Float32s()}
			if name != "of one twice" {
				wrt, parameters = append(wrt, pb), append(parameters, b.Float32s())
			}
			p, err := g.Compile(g.Apply(squares(nil, &n), x, y), wrt...)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			run(t, p)
			var got [][]float32
			for _, w := range wrt {
				got = append(got, slices.Clone(p.Grad(w).Float32s()))
			}
			for i, x := range parameters {
				for j := range x {
					want := difference(t, p, &x[j])
					if d := float64(got[i][j]); !(d-want < 2e-3 && want-d < 2e-3) {
						t.Errorf("gradient %d of parameter %d is %g, finite difference %g", j, i, d, want)
					}
				}
			}
			if n != 2 {
				t.Errorf("%d gradients were asked for, want both", n)
			}
		})
	}
}

func TestNoGradientIsComputedAheadWithoutABackwardPass(t *testing.T) {
	g, n := New(Heap{}), -1
	a := g.Param("a", values(rand.New(rand.NewPCG(1, 2)), 5))
	p, err := g.Compile(g.Apply(squares(nil, &n), a, a))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Forward(t.Context()); err != nil || n != 0 {
		t.Errorf("%d gradients were asked for; error %v", n, err)
	}
}

func TestOnlyTheLossComputesItsGradientsAhead(t *testing.T) {
	g, n := New(Heap{}), 0
	a := g.Param("a", values(rand.New(rand.NewPCG(1, 2)), 5))
	leave := g.Enter("head")
	x := g.Apply(squares(nil, &n), a, a)
	leave()
	_, err := g.Compile(g.Apply(total(), x), a)
	if err == nil || !strings.Contains(err.Error(), "squares at head has its gradients computed ahead") {
		t.Errorf("error %v", err)
	}
}

// TestATiedWeightsGradientIsCompletedWhereItBegan: one buffer holds it, in the memory of
// the plugin that computes the loss, and an ordinary operation adds its part to it.
func TestATiedWeightsGradientIsCompletedWhereItBegan(t *testing.T) {
	const n = 1 << 12
	var plugin core.Memory = &struct{ Heap }{}
	g, asked := New(Heap{}), 0
	w := g.Param("w", values(rand.New(rand.NewPCG(1, 2)), n))
	p, err := g.Compile(g.Apply(squares(plugin, &asked), g.Apply(double(n, true, nil), w), w), w)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 2 { // the second run overwrites what the first left
		run(t, p)
		for i, x := range w.slot.tensor.Float32s() {
			if got, want := p.Grad(w).Float32s()[i], 12*x*x; !(got-want <= 1e-5 && want-got <= 1e-5) {
				t.Fatalf("gradient %d is %g, want %g", i, got, want)
			}
		}
	}
	// The gradient of w, 2w, and the gradient of 2w.
	if limit := 3*4*n + 1024; p.Bytes() > limit {
		t.Errorf("the program holds %d bytes, want at most %d", p.Bytes(), limit)
	}
	for _, b := range p.blocks {
		if b.mem == core.Memory(Heap{}) && len(b.data) > 4*n+1024 {
			t.Errorf("%d bytes in the graph's memory: a gradient of w lies there, too", len(b.data))
		}
	}
}

func TestKernelLossRefusesImpossibleFacts(t *testing.T) {
	k := reference.Kernel(core.LinearCrossEntropy)
	if _, err := KernelLoss(k, core.Facts{DType: core.Float32}, "loss", 3, nil); err == nil ||
		!strings.Contains(err.Error(), "vocab must be positive") {
		t.Errorf("error %v", err)
	}
}
