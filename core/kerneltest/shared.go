package kerneltest

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
)

// sharedKind is the kind of the case in which several uses have one weight, and sharedTokens are their tokens.
const (
	sharedKind   = "a weight of several uses, known by number"
	sharedTokens = 3
)

// sharedWeights finds a kernel that takes what it made of a weight for what it, or another kernel of the plugin, makes
// of it elsewhere: a model may have the same weight in two ops, such as a head in a loss and in a product, and the
// same number comes with it. In turn, a use, another with the weight of the first, and the first again.
func (t *trial) sharedWeights(ctx context.Context) error {
	tried := map[core.DType]bool{}
	for _, f := range kinds(t.Op, t.Facts.DType) {
		f, ok := fit(t.kernel.Supports, f)
		f = lasting(t.kernel, f)
		weight, one := weightOf(t.Op, f)
		if !ok || !one || tried[weight.DType] {
			continue
		}
		tried[weight.DType] = true
		for _, k := range append([]core.Kernel{t.kernel}, t.options.Others...) {
			for _, g := range usesOf(k, f.DType, weight) {
				if k.Info().Op == t.Op && g == f {
					continue
				}
				if err := t.shareWeight(ctx, f, k, g); err != nil || t.Status == Failed {
					return err
				}
			}
		}
	}
	if len(tried) == 0 {
		return skipf("%s has no weights", t.Op)
	}
	return nil
}

// weightOf is the first weight of a use, if it is one tensor that needs no other to be understood, as those of int8
// need scales.
func weightOf(op core.Op, f core.Facts) (core.Arg, bool) {
	sig, err := core.NewSignature(op, core.Forward, f)
	name := firstWeight(op, f)
	i := slices.IndexFunc(sig.In, func(a core.Arg) bool { return a.Name == name })
	if err != nil || i < 0 || sig.In[i].Count > 1 || sig.In[i].DType == core.Int8 || sig.In[i].DType == core.NF4 {
		return core.Arg{}, false
	}
	return sig.In[i], true
}

// usesOf returns uses of a kernel that have a first weight like this one.
func usesOf(k core.Kernel, d core.DType, weight core.Arg) (all []core.Facts) {
	op, rows := k.Info().Op, weight.Shape[0]
	wide := weight.Shape[len(weight.Shape)-1]
	set := func(size *int, to int) {
		if *size > 0 { // the op has it
			*size = to
		}
	}
	for _, f := range kinds(op, d) {
		f.Frozen = op.HasWeights()
		set(&f.Dim, wide)
		set(&f.Out, rows)
		set(&f.Vocab, rows)
		set(&f.Intermediate, rows)
		if set(&f.HeadDim, rows); f.Heads > 0 {
			f.Heads, f.KVHeads = 1, 1
		}
		w, ok := weightOf(op, f)
		if ok && w.DType == weight.DType && w.Shape.Equal(weight.Shape) && k.Supports(f) == nil &&
			!slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// shareWeight has another use with the weight of one.
func (t *trial) shareWeight(ctx context.Context, f core.Facts, k core.Kernel, g core.Facts) error {
	one := prepare(ctx, specialCase(t.Op, f, sharedKind, sharedTokens), passes(t.kernel))
	if one.err != nil {
		return one.err
	}
	mine, theirs := firstWeight(t.Op, f), firstWeight(k.Info().Op, g)
	c := specialCase(k.Info().Op, g, sharedKind, sharedTokens)
	c.Edit = func(in map[string][]core.Tensor) {
		for i, x := range in[theirs] {
			copy(x.Data, one.in.byName[mine][i].Data)
		}
	}
	other := prepare(ctx, c, passes(k))
	if other.err != nil {
		return other.err
	}
	m := newMemory(t.kernel)
	defer m.free()
	room, err := one.place(t.kernel, m)
	if err != nil {
		return err
	}
	there, err := other.place(k, m)
	if err != nil {
		return err
	}
	number := core.NewContent()
	numbers{mine: number}.give(room)
	numbers{theirs: number}.give(there)
	first := one.runAt(ctx, room, nil, poisons[0], t.Result)
	if t.Status == OK {
		other.runAt(ctx, there, nil, poisons[1], t.Result)
		t.prefix("%s%v with the weight of a call with %v: ", t.other(k.Info().Op), g, f)
	}
	if t.Status == OK {
		one.runAt(ctx, room, first, poisons[0], t.Result)
		t.prefix("%v after a call of %s with %v and the same weight: ", f, k.Info().Op, g)
	}
	return nil
}
