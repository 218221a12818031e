package kerneltest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
)

const (
	// contentTokens is enough rows, and contentWidth enough columns, for kernels that keep something
	// only where it is worth it.
	contentTokens = 200
	contentWidth  = 264
	// kindTokens are enough rows where each kind of use has its turn.
	kindTokens = 70
)

// lasting returns facts with which kernels keep what they make of a weight: frozen and wide, as far as k
// takes that.
func lasting(k core.Kernel, f core.Facts) core.Facts {
	for _, change := range []func(f *core.Facts){
		func(f *core.Facts) { f.Frozen = k.Info().Op.HasWeights() },
		func(f *core.Facts) {
			atLeast(&f.Dim, contentWidth)
			atLeast(&f.Out, contentWidth+8)
			atLeast(&f.Vocab, contentWidth+8)
		},
	} {
		other := f
		change(&other)
		if other != f && k.Supports(other) == nil {
			f = other
		}
	}
	return f
}

// smallest returns the first of the kinds of use that are as small as can be, if k takes it, or else f.
func smallest(k core.Kernel, f core.Facts) core.Facts {
	if of, ok := fit(k.Supports, kinds(k.Info().Op, f.DType)[0]); ok {
		return of
	}
	return f
}

// contentsKind is the kind of the case, and manyKind that of the one with more inputs than a kernel may have counted
// on.
const (
	contentsKind = "inputs known by number"
	manyKind     = "many inputs known by number"
	// manyContents is how many there are of each input, as of a model with many layers: more than 8 bits count.
	manyContents = 1<<8 + 4
	// firstBit is from which on numbers of contents have bits that none in this process has otherwise.
	firstBit = 32
)

// numbers are those of contents, by the names of inputs: nil for inputs whose contents nobody knows.
type numbers map[string]uint64

// give names the inputs of the calls of a place.
func (n numbers) give(at place) {
	for _, c := range at.calls {
		for i, a := range tensors(c.Sig.In) {
			if n != nil && n[a.Name] == 0 {
				n[a.Name] = core.NewContent()
			}
			c.In[i].Content = n[a.Name]
		}
	}
}

// apart returns, for the first few i, numbers that differ from these in a single bit, one that is higher than any that
// a host has counted to; and else none yet.
func (n numbers) apart(i int) numbers {
	some := numbers{}
	if bit := firstBit + i - 1; i > 0 && bit < 64 {
		for of, number := range n {
			some[of] = number ^ 1<<bit
		}
	}
	return some
}

// of returns the numbers of one input, which may be several tensors.
func (n numbers) of(name string) numbers {
	some := numbers{}
	for of, number := range n {
		if of == name || strings.HasPrefix(of, name+"[") {
			some[of] = number
		}
	}
	return some
}

// firstWeight is the first input of a use that has nothing to do with its tokens, "" without: the weight, where there
// is one, and not its scales or an adapter.
func firstWeight(op core.Op, f core.Facts) string {
	sig, err := core.NewSignature(op, core.Forward, f)
	if err != nil {
		return ""
	}
	for _, a := range sig.In {
		if !slices.ContainsFunc(a.Shape, func(n int) bool { return n < 0 }) {
			return a.Name
		}
	}
	return ""
}

// contents finds a kernel that keeps too long what it made of an input: one that knows it by its
// place, or looks for it where it was, or takes no number for one, or what it made of several by the
// number of one, as of a weight that an adapter is added to, or in a form that it has for one token only, or for many,
// or for one side of a weight that it takes for the other.
func (t *trial) contents(ctx context.Context) error {
	weight := firstWeight(t.of.Op, t.of.Facts)
	data, err := t.contentVersions(ctx, weight)
	if err != nil {
		return err
	}
	one, two, mid, around, single := data[0], data[1], data[2], data[3], data[4]
	room, err := one.place(t.kernel, t.memory)
	if err != nil {
		return err
	}
	seat, err := single.place(t.kernel, t.memory)
	if err != nil {
		return err
	}
	poison := 0
	run := func(when string, at place, p prepared, n numbers, before outputs) outputs {
		if t.Status == Failed {
			return nil
		}
		n.give(at)
		poison++
		now := p.runAt(ctx, at, before, poisons[poison%2], t.Result)
		if t.Status == Failed {
			t.prefix("%s: ", when)
		}
		return now
	}
	n := numbers{}
	first := run("in the first call", room, one, n, nil)
	run("in a call whose inputs have the numbers of the first", room, one, n, first)
	run("after other data at the same place, without numbers", room, two, nil, nil)
	run("with the data and the numbers of the first call again", room, one, n, first)
	if weight != "" {
		run("with other data and numbers for all but "+weight, room, around, n.of(weight), nil)
		run("with the data and the numbers of the first call after that", room, one, n, first)
		run("with one token and "+weight+" of the first call", seat, single, n.of(weight), nil)
		begun := numbers{}
		run("with one token and other numbers", seat, single, begun, nil)
		run("with more tokens and "+weight+" of the call with one", room, around, begun.of(weight), nil)
	}
	run("with other data at the same place, and other numbers", room, two, numbers{}, nil)
	run("with a number changed in the middle of each input, and other numbers", room, mid, numbers{}, nil)
	err = t.elsewhere(one, func(at place) {
		run("with the data and the numbers of the first call elsewhere", at, one, n, first)
	})
	if err != nil {
		return err
	}
	err = t.elsewhere(one, func(at place) {
		run("in memory that was freed and is used again, with other numbers", at, two, numbers{}, nil)
		run("without numbers, in the end", at, one, nil, first)
	})
	if err != nil || t.Status == Failed {
		return err
	}
	return t.squareContents(ctx)
}

// squareContents finds a kernel that takes what it made of a weight for its products with one side for that of its
// products with the other: of a square weight, as models have, both have the same sizes.
func (t *trial) squareContents(ctx context.Context) error {
	c := t.of
	c.Facts = square(c.Facts)
	if c.Facts == t.of.Facts || len(passes(t.kernel)) == 1 || t.kernel.Supports(c.Facts) != nil {
		return nil
	}
	p := prepare(ctx, c, passes(t.kernel))
	at, err := p.place(t.kernel, t.memory)
	if err != nil {
		return err
	}
	numbers{}.give(at)
	first := outputs(nil)
	for _, poison := range poisons {
		if first = p.runAt(ctx, at, first, poison, t.Result); t.Status == Failed {
			t.prefix("with %v, whose weight is square, and numbers: ", c.Facts)
			break
		}
	}
	return nil
}

// square returns facts with a weight that has as many rows as columns.
func square(f core.Facts) core.Facts {
	switch {
	case f.Dim == 0:
	case f.Heads > 0 && f.HeadDim > 0:
		f.HeadDim = up(f.Dim, 8*f.Heads) / f.Heads
		f.Dim = f.Heads * f.HeadDim
	case f.Intermediate > 0 && f.Layout == core.Packed:
		f.Intermediate = f.Dim / 2
	case f.Intermediate > 0:
		f.Intermediate = f.Dim
	case f.Out > 0:
		f.Out = f.Dim
	case f.Vocab > 0:
		f.Vocab = f.Dim
	}
	return f
}

// contentVersions are data of the case, other data, the first with a number changed in the middle of each input, and
// other data around the weight of the first, for as many tokens and for one.
func (t *trial) contentVersions(ctx context.Context, weight string) (data [5]prepared, err error) {
	c := t.of
	other, middle, same := c, c, c
	other.Seed, middle.Edit, same.Seed = c.Seed+1, negateMiddle, c.Seed+2
	same.Edit = func(in map[string][]core.Tensor) {
		for i, x := range in[weight] {
			copy(x.Data, data[0].in.byName[weight][i].Data)
		}
	}
	token := same
	token.Tokens = 1
	for i, c := range []Case{c, other, middle, same, token} {
		if data[i] = t.prepare(ctx, c); data[i].err != nil {
			return data, data[i].err
		}
	}
	return data, nil
}

// elsewhere has a place for the case in memory that is freed afterwards.
func (t *trial) elsewhere(p prepared, step func(at place)) error {
	m := newMemory(t.kernel)
	defer m.free()
	at, err := p.place(t.kernel, m)
	if err == nil {
		step(at)
	}
	return err
}

// manyContents finds a kernel that mistakes one of many inputs for another, as one whose table of them is full: calls
// in turn with three versions of the data, each time under other numbers and at another site, and all of them again.
// What it keeps of them stays in the process with one thread, if there is one.
func (t *trial) manyContents(ctx context.Context) error {
	c := t.of
	other, middle := c, c
	other.Seed, middle.Edit = c.Seed+1, negateMiddle
	var data [3]prepared
	for i, c := range []Case{c, other, middle} {
		if data[i] = prepare(ctx, c, []core.Pass{core.Forward}); data[i].err != nil {
			return data[i].err
		}
	}
	k := t.kernel
	if t.options.Single != nil {
		k = t.options.Single
	}
	m := newMemory(k)
	defer m.free()
	at, err := data[0].place(k, m)
	if err != nil {
		return err
	}
	var first [len(data)]outputs
	var known [manyContents]numbers
	for i := range 2 * manyContents {
		n, version := i%manyContents, i%manyContents%len(data)
		if known[n] == nil {
			known[n] = known[0].apart(n)
		}
		known[n].give(at)
		at.calls[core.Forward].Site = fmt.Sprintf("layers.%d.verified", n)
		now := outputs{}
		data[version].runPassAt(ctx, at, core.Forward, first[version], now, poisons[i%2], t.Result)
		if first[version] == nil {
			first[version] = now
		}
		if t.Status == Failed {
			t.prefix("call %d, with the inputs number %d of %d: ", i+1, n+1, manyContents)
			break
		}
	}
	return nil
}
