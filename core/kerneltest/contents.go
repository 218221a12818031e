package kerneltest

import (
	"context"

	"github.com/seed98097648/tune/core"
)

const (
	// contentTokens is enough rows, and contentWidth enough columns, for kernels that keep something
	// only where it is worth it.
	contentTokens = 200
	contentWidth  = 264
)

// lasting returns facts with which kernels keep what they make of a weight: frozen and wide, as far as k
// takes that.
func lasting(k core.Kernel, f core.Facts) core.Facts {
	for _, change := range []func(f *core.Facts){
		func(f *core.Facts) { f.Frozen = true },
		func(f *core.Facts) { f.Dim, f.Out = max(f.Dim, contentWidth), max(f.Out, contentWidth+8) },
		func(f *core.Facts) { f.Dim, f.Vocab = max(f.Dim, contentWidth), max(f.Vocab, contentWidth+8) },
	} {
		other := f
		change(&other)
		if k.Supports(other) == nil {
			f = other
		}
	}
	return f
}

// contentsKind is the kind of the case.
const contentsKind = "inputs known by number"

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

// contents finds a kernel that keeps too long what it made of an input: one that knows it by its
// place, or looks for it where it was, or takes no number for one.
func (t *trial) contents(ctx context.Context) error {
	c := t.of
	other, middle := c, c
	other.Seed, middle.Edit = c.Seed+1, negateMiddle
	var data [3]prepared
	for i, c := range []Case{c, other, middle} {
		if data[i] = prepare(ctx, c, passes(t.kernel)); data[i].err != nil {
			return data[i].err
		}
	}
	one, two, mid := data[0], data[1], data[2]
	room, err := one.place(t.kernel, t.memory)
	if err != nil {
		return err
	}
	elsewhere := func(step func(at place) error) error {
		m := newMemory(t.kernel)
		defer m.free()
		at, err := one.place(t.kernel, m)
		if err != nil {
			return err
		}
		return step(at)
	}
	first, poison := outputs(nil), 0
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
	first = run("in the first call", room, one, n, nil)
	run("in a call whose inputs have the numbers of the first", room, one, n, first)
	run("after other data at the same place, without numbers", room, two, nil, nil)
	run("with the data and the numbers of the first call again", room, one, n, first)
	run("with other data at the same place, and other numbers", room, two, numbers{}, nil)
	run("with a number changed in the middle of each input, and other numbers", room, mid, numbers{}, nil)
	err = elsewhere(func(at place) error {
		run("with the data and the numbers of the first call elsewhere", at, one, n, first)
		return nil
	})
	if err != nil {
		return err
	}
	return elsewhere(func(at place) error {
		run("in memory that was freed and is used again, with other numbers", at, two, numbers{}, nil)
		run("without numbers, in the end", at, one, nil, first)
		return nil
	})
}
