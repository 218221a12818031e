package kerneltest

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// visited is a place, for data of several versions.
type visited struct {
	place
	versions []version
}

// version is data of a call and what came of it.
type version struct {
	prepared
	first outputs // what its first call of each pass gave
}

// anyOrder runs calls of several sizes, kinds of use and data, forward and backward, in an
// order of no order, each as often as its turn comes. The first call of each must be right,
// all others must have its bits. It finds what a kernel keeps of earlier calls: weights
// that it packed once and knows by their address, or by a few of their elements; tables as
// long as the first call's; buffers that do not grow; a forward pass that the backward pass
// relies on; and calls that go wrong now and then, if that is once in Options.Calls or more
// often. Between them are calls of the other kernels of the plugin, which may share buffers and tables. Then some
// are run in series.
func (t *trial) anyOrder(ctx context.Context) error {
	places, err := t.places(ctx)
	if err != nil {
		return err
	}
	if len(places) == 0 {
		return skipf("it supports none of the sizes of this case")
	}
	rng := rand.New(rand.NewPCG(3, 1))
	times := anyOrderCalls(t.options)
	for i := range times {
		p := places[rng.IntN(len(places))]
		v, pass := p.versions[rng.IntN(len(p.versions))], passes(p.kernel)[rng.IntN(len(passes(p.kernel)))]
		v.runPassAt(ctx, p.place, pass, v.first, v.first, poisons[i%2], t.Result)
		if t.Status == Failed {
			t.prefix("call %d of %d, %s%v with %d tokens: ", i+1, times, t.other(p.in.Op), p.in.Facts, p.in.Tokens)
			return nil
		}
	}
	t.inSeries(ctx, rng, places)
	return nil
}

// other names the op of a call that has failed and is none of the kernel's own, as its pass and tensors are not.
func (t *trial) other(op core.Op) string {
	if op == t.Op {
		return ""
	}
	for i, v := range t.Violations {
		t.Violations[i].Text = strings.TrimLeft(v.Pass+" "+v.Tensor+": ", " :") + v.Text
		t.Violations[i].Pass, t.Violations[i].Tensor = "", ""
	}
	return "of " + string(op) + ", "
}

func anyOrderCalls(o Options) int { return 4 * o.Calls }

// places makes calls of a few sizes for each kind of use that the kernel supports, of fewer after the second, and for
// one of each of the others.
func (t *trial) places(ctx context.Context) ([]visited, error) {
	places, err := t.placesOf(ctx, t.kernel, len(ops.Of(t.Op).Kinds), 3, 70, 1, 34)
	for _, k := range t.options.Others {
		if err != nil || len(places) == 0 {
			break
		}
		var more []visited
		more, err = t.placesOf(ctx, k, 1, 3, 70)
		places = append(places, more...)
	}
	return places, err
}

// placesOf makes them for so many kinds of use of a kernel, the first two with all sizes.
func (t *trial) placesOf(ctx context.Context, k core.Kernel, most int, sizes ...int) (places []visited, err error) {
	op, count := k.Info().Op, 0
	for _, f := range kinds(op, t.Facts.DType) {
		c := fitting(k.Supports, []Case{specialCase(op, f, "", 3)})[0]
		if count == most || k.Supports(c.Facts) != nil {
			continue
		}
		for _, c.Tokens = range sizes {
			c.Seed = uint64(c.Tokens)
			p, err := t.visit(ctx, k, c)
			if err != nil {
				return nil, err
			}
			places = append(places, p)
		}
		if count++; count == 2 {
			sizes = sizes[:2]
		}
	}
	return places, nil
}

// visit makes a place with three versions of data: two that have nothing in common, and
// the first with another last element in every tensor.
func (t *trial) visit(ctx context.Context, k core.Kernel, c Case) (p visited, err error) {
	other, nearly := c, c
	other.Seed++
	nearly.Edit = func(in map[string][]core.Tensor) { negate(in, func(n int) int { return n - 1 }) }
	for _, c := range []Case{c, other, nearly} {
		v := version{prepare(ctx, c, passes(k)), outputs{}}
		if v.err != nil {
			return p, v.err
		}
		p.versions = append(p.versions, v)
	}
	p.place, err = p.versions[0].prepared.place(k, t.memory)
	return p, err
}
