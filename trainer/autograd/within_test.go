package autograd

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// scaled is y [n] = x [n] times w [width], again and again. Its gradient of w can be added to a sum over runs where
// whole is set.
func scaled(n, width int, mem core.Memory, whole bool) Op {
	op := Op{Name: "scaled", Outputs: []Spec{Float32(n)}, Memory: mem,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, w, y := in[0].Float32s(), in[1].Float32s(), out[0].Float32s()
			for i := range y {
				y[i] = x[i] * w[i%width]
			}
			return nil
		}}
	op.Backward = &Backward{Inputs: []int{0, 1}, Wrt: []int{0, 1}, Run: func(_ context.Context, g *Grads) error {
		x, w, dy := g.In[0].Float32s(), g.In[1].Float32s(), g.DOut[0].Float32s()
		dw := make([]float32, width)
		for i := range dy {
			dw[i%width] += dy[i] * x[i]
			if d := g.DIn[0]; !d.IsZero() {
				d.Float32s()[i] = dy[i] * w[i%width]
			}
		}
		put(g.DIn[1], core.FromFloat32(dw, width), 1, g.Add[1])
		return nil
	}}
	if whole {
		op.Backward.AddsWhole = []int{1}
	}
	return op
}

// ofRows is a program of n values in a chain of products with the weights, within another one unless that is nil.
func ofRows(n int, weights []core.Tensor, sums, mem core.Memory, whole bool, within *Program) (*Program, []*Value, error) {
	g := New(Heap{})
	if sums != nil {
		g.Accumulate(sums)
	}
	if within != nil {
		g.Within(within)
	}
	x := g.Input("x", values(rand.New(rand.NewPCG(uint64(n), 2)), n))
	var params []*Value
	for i, w := range weights {
		v := g.Param("w", w)
		params, x = append(params, v), g.Apply(scaled(n, w.Elems(), []core.Memory{nil, mem}[i%2], whole), x, v)
	}
	p, err := g.Compile(g.Apply(total(), x), params...)
	return p, params, err
}

// TestAProgramWithinAnotherHasItsGradients: a program of fewer rows takes no memory, writes its gradients where the
// other one has them, and adds to its sums, also where it could add in a way that the other cannot.
func TestAProgramWithinAnotherHasItsGradients(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var weights []core.Tensor
	for range 4 {
		weights = append(weights, values(rng, 5))
	}
	for name, tt := range map[string]struct {
		sums         core.Memory
		large, small bool // whether the kernels can add to sums
	}{
		"gradients of each run": {},
		"sums":                  {sums: &struct{ Heap }{}},
		"sums of kernels":       {sums: &struct{ Heap }{}, large: true, small: true},
		"sums of few rows":      {sums: &struct{ Heap }{}, small: true},
	} {
		t.Run(name, func(t *testing.T) {
			mem := &struct {
				Heap
				_ byte
			}{}
			program := func(n int, whole bool, within *Program) (*Program, func() []float32) {
				p, params, err := ofRows(n, weights, tt.sums, mem, whole, within)
				if err != nil {
					t.Fatal(err)
				}
				return p, func() (all []float32) {
					for _, v := range params {
						all = append(all, p.Grad(v).Float32s()...)
					}
					return all
				}
			}
			large, gradients := program(40, tt.large, nil)
			small, within := program(12, tt.small, large)
			apart, alone := program(12, tt.small, nil)
			if small.Bytes() != 0 {
				t.Errorf("within another, the program holds %d bytes", small.Bytes())
			}
			run(t, apart)
			run(t, large)
			first := gradients()
			small.Adding(tt.sums != nil)
			run(t, small)
			want := alone()
			if tt.sums != nil {
				for i := range want {
					want[i] = first[i] + want[i]
				}
			}
			if !slices.Equal(gradients(), want) || !slices.Equal(within(), want) {
				t.Errorf("gradients %v, want %v", gradients(), want)
			}
			if calls := large.Stats()[0].Calls; calls != 8 {
				t.Errorf("%d calls of %s are counted, want those of both", calls, large.Stats()[0].Op)
			}
		})
	}
}

func TestOnlyAlikeProgramsLieWithinOneAnother(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	weights := []core.Tensor{values(rng, 5), values(rng, 5)}
	large, _, err := ofRows(40, weights, nil, nil, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		n       int
		weights []core.Tensor
		mem     core.Memory
	}{
		"more rows":        {n: 41, weights: weights},
		"other operations": {n: 12, weights: weights[:1]},
		"another memory":   {n: 12, weights: weights, mem: &struct{ Heap }{}},
	} {
		if _, _, err := ofRows(tt.n, tt.weights, nil, tt.mem, false, large); !errors.Is(err, ErrUnlike) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
