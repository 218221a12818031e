package kerneltest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// place is a call at fixed addresses, for data of several versions.
type place struct {
	turn
	versions []version
}

// version is data of a call and what came of it.
type version struct {
	data  [][]byte
	want  map[core.Pass]expected
	first map[string]core.Tensor // what its first call of each pass gave
}

// anyOrder runs calls of several sizes, kinds of use and data, forward and backward, in an
// order of no order, each as often as its turn comes. The first call of each must be right,
// all others must have its bits. It finds what a kernel keeps of earlier calls: weights
// that it packed once and knows by their address, or by a few of their elements; tables as
// long as the first call's; buffers that do not grow; a forward pass that the backward pass
// relies on; and calls that go wrong now and then, if that is once in times/4 or more often.
func anyOrder(ctx context.Context, k core.Kernel, d core.DType, times int) Result {
	c := specialCase(k, core.Facts{DType: d}, fmt.Sprintf("%d calls in any order", times), 0)
	r := newResult(c)
	r.Case = fmt.Sprintf("%s %s %s", c.Op, d, c.Kind)
	m := newMemory(k)
	defer m.free()
	places, err := newPlaces(ctx, k, d, m)
	if err != nil {
		r.fail(general(err))
		return r
	}
	if len(places) == 0 {
		r.skip("it supports none of the sizes of this case")
		return r
	}
	rng := rand.New(rand.NewPCG(3, 1))
	for i := range times {
		p := places[rng.IntN(len(places))]
		v, pass := p.versions[rng.IntN(len(p.versions))], passes(k)[rng.IntN(len(passes(k)))]
		p.load(v.data)
		p.runPass(ctx, k, pass, v.want[pass], v.first, v.first, poisons[i%2], &r)
		if r.Status == Failed {
			for j := range r.Violations {
				r.Violations[j].Text = fmt.Sprintf("call %d of %d, %v with %d tokens: %s", i+1, times, p.in.Facts, p.in.Tokens, r.Violations[j].Text)
			}
			break
		}
	}
	return r
}

// newPlaces makes calls of a few sizes for two kinds of use that the kernel supports.
func newPlaces(ctx context.Context, k core.Kernel, d core.DType, m *memory) ([]place, error) {
	var places []place
	op, kinds := k.Info().Op, 0
	for _, f := range ops.Of(op).Kinds {
		f.DType = d
		if op.HasWeights() {
			f.WeightDType = d
		}
		c := fitting(k, []Case{specialCase(k, f, "", 3)})[0]
		if k.Supports(c.Facts) != nil {
			continue
		}
		for _, c.Tokens = range []int{3, 70, 1, 34} {
			c.Seed = uint64(c.Tokens)
			p, err := newPlace(ctx, k, c, m)
			if err != nil {
				return nil, err
			}
			places = append(places, p)
		}
		if kinds++; kinds == 2 {
			break
		}
	}
	return places, nil
}

// newPlace makes a call with three versions of data: two that have nothing in common, and
// the first with another last element in every tensor.
func newPlace(ctx context.Context, k core.Kernel, c Case, m *memory) (p place, err error) {
	if p.turn, err = newTurn(ctx, k, c, m, m); err != nil {
		return p, err
	}
	other, nearly := c, c
	other.Seed++
	nearly.Edit = negateLast
	p.versions = []version{{p.data(), p.want, map[string]core.Tensor{}}}
	for _, c := range []Case{other, nearly} {
		t, err := newTurn(ctx, k, c, &memory{Memory: heap{}}, &memory{Memory: heap{}})
		if err != nil {
			return p, err
		}
		p.versions = append(p.versions, version{t.data(), t.want, map[string]core.Tensor{}})
	}
	return p, nil
}

// negateLast changes the sign of the last element of all tensors but indices and routing
// weights, which are never negative.
func negateLast(in map[string][]core.Tensor) {
	for name, tensors := range in {
		for _, x := range tensors {
			if n := x.Elems(); x.DType != core.Int32 && name != "routing_weights" {
				last, v := x.Slice(n-1, n, 1), make([]float32, 1)
				last.Load(v, 0)
				last.Store([]float32{-v[0]}, 0)
			}
		}
	}
}
