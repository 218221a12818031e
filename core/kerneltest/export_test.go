package kerneltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

// Choice is a fact that is no size.
type Choice = choice

// Choices are all of them.
var Choices = choices

// Huge is the case with more than 2^31 elements, with fewer.
func Huge(ctx context.Context, k core.Kernel, f core.Facts, o Options, elems int) Result {
	c := specialCase(k.Info().Op, f, "huge", 2*hugeEdge)
	return try(ctx, k, c, o, func(t *trial, ctx context.Context) error { return t.huge(ctx, elems) })
}

// Contents is the case of inputs whose contents have numbers.
func Contents(ctx context.Context, k core.Kernel, f core.Facts) Result {
	return try(ctx, k, specialCase(k.Info().Op, lasting(k, f), contentsKind, contentTokens), Options{}, (*trial).contents)
}

// ManyContents is the case of more of them than a kernel may have counted on.
func ManyContents(ctx context.Context, k core.Kernel, f core.Facts) Result {
	return try(ctx, k, specialCase(k.Info().Op, lasting(k, f), manyKind, kindTokens), Options{}, (*trial).manyContents)
}

// SharedWeights is the case of a weight that several uses have, of a kernel and of others.
func SharedWeights(ctx context.Context, k core.Kernel, d core.DType, others ...core.Kernel) Result {
	c := specialCase(k.Info().Op, core.Facts{DType: d}, sharedKind, sharedTokens)
	return try(ctx, k, c, Options{Others: others}, (*trial).sharedWeights)
}

// ManySizes is the case of calls of many sizes.
func ManySizes(ctx context.Context, k core.Kernel, f core.Facts) Result {
	return try(ctx, k, specialCase(k.Info().Op, f, sizesKind, growthSizes), Options{}, (*trial).manySizes)
}

// OtherData is the case of calls each of which has data of its own.
func OtherData(ctx context.Context, k core.Kernel, d core.DType) Result {
	c := specialCase(k.Info().Op, core.Facts{DType: d}, otherDataKind, 0)
	return try(ctx, k, c, Options{}, (*trial).otherData)
}

// KeptWithin is the case of more inputs than a kernel may keep.
func KeptWithin(ctx context.Context, k core.Kernel, f core.Facts, kept int64) Result {
	c := specialCase(k.Info().Op, lasting(k, f), keptKind, kindTokens)
	return try(ctx, k, c, Options{Single: k, Kept: kept}, (*trial).keptWithin)
}

// InTurn is the case of calls in turn.
func InTurn(ctx context.Context, k core.Kernel, f core.Facts) Result {
	return try(ctx, k, specialCase(k.Info().Op, f, "calls in turn", 13), Options{}, (*trial).inTurn)
}

// Threads are the cases of one thread or more of each kind of use in a storage type.
func Threads(ctx context.Context, k core.Kernel, d core.DType) (all []Result) {
	for _, s := range trialsOfKinds(k, core.Facts{DType: d}, Options{Single: k}.withDefaults()) {
		if s.kind == threadsKind {
			all = append(all, s.run(ctx))
		}
	}
	return all
}

// Repeated is the case of the same call many times, beside another process.
func Repeated(ctx context.Context, k, single core.Kernel, f core.Facts, times int) Result {
	c := specialCase(k.Info().Op, f, "repeated", 64)
	return try(ctx, k, c, Options{Repeats: times, Single: single}, (*trial).repeated)
}

// AnyOrder is the case of calls in any order, between those of other kernels.
func AnyOrder(ctx context.Context, k core.Kernel, d core.DType, times int, others ...core.Kernel) Result {
	c := specialCase(k.Info().Op, core.Facts{DType: d}, "calls in any order", 0)
	return try(ctx, k, c, Options{Calls: times / 4, Others: others}, (*trial).anyOrder)
}

// SizesFor are the sizes that Examine asks a kernel about.
func SizesFor(k core.Kernel) []Case { return fitting(k.Supports, sizes(k.Info().Op, k.Supports)) }

// CheckEach is Check for each of some kernels that have bugs planted in one that computes as the reference in float32
// does: for all of them that works out each case once.
func CheckEach(k core.Kernel, cases []Case, plant ...func(core.Kernel) core.Kernel) []error {
	violations := make([]error, len(plant))
	for _, c := range cases {
		p := prepare(context.Background(), c, passes(k))
		for i, planted := range plant {
			r, k := newResult(c), planted(known{k, p.want})
			if accepted(k.Supports(c.Facts), c.Facts, &r) {
				p.run(context.Background(), k, nil, &r)
			}
			violations[i] = errors.Join(violations[i], r.Err())
		}
	}
	return violations
}

// known is a kernel that gives what the reference in float32 has given for the same inputs, and computes for others.
type known struct {
	core.Kernel
	of map[core.Pass]expected
}

func (k known) Forward(ctx context.Context, c *core.Call) error  { return k.run(ctx, c) }
func (k known) Backward(ctx context.Context, c *core.Call) error { return k.run(ctx, c) }

func (k known) run(ctx context.Context, c *core.Call) error {
	same := func(a, b core.Tensor) bool { return a.Shape.Equal(b.Shape) && bytes.Equal(a.Data, b.Data) }
	was := k.of[c.Pass].single
	if was == nil || was.Facts != c.Facts || !slices.EqualFunc(was.In, c.In, same) {
		return core.Run(ctx, k.Kernel, c)
	}
	for i, x := range c.Out {
		if c.Keeps(i) || len(x.Data) != len(was.Out[i].Data) {
			return core.Run(ctx, k.Kernel, c)
		}
	}
	for i, x := range c.Out {
		copy(x.Data, was.Out[i].Data)
	}
	return nil
}

// CheckSingle compares what the reference in float32 gives in the cases with what is wanted of a kernel: the kit has
// run it for that already. As that goes by how far it is from the reference in float64, this must not be more than
// most, a share of the largest element, where tensors are in float32.
func CheckSingle(op core.Op, cases []Case, most float64) error {
	var violations []error
	k := reference.Single(op)
	for _, c := range cases {
		r := newResult(c)
		if !accepted(k.Supports(c.Facts), c.Facts, &r) {
			continue
		}
		p := prepare(context.Background(), c, passes(k))
		if p.err != nil {
			violations = append(violations, p.err)
			continue
		}
		for pass, want := range p.want {
			for i, a := range tensors(want.single.Sig.Out) {
				got := want.single.Out[i]
				if _, err := want.compare(i, got); err != nil {
					r.fail(violation(pass, a.Name, err))
				}
				if c.Facts.DType != core.Float32 || a.DType != core.Float32 {
					continue
				}
				s := apart(got, want.want.Out[i], got, 1)
				if own := s.rounding(); !s.overflow && own > most {
					r.fail(violation(pass, a.Name, fmt.Errorf("the references are %.3g apart, at most %.3g", own, most)))
				}
			}
		}
		violations = append(violations, r.Err())
	}
	return errors.Join(violations...)
}

// What outputs are compared by.
var (
	CompareRounding = compareRounding
	CompareDigits   = compareDigits
)

// ShareOf returns how much of what is allowed an output of so many rows is off by.
func ShareOf(f core.Facts, got, want, single core.Tensor, rows int) float64 {
	s := apart(got, want, single, rows)
	share, _ := s.judge(limit(f, s.rounding())) // which is above 1 where that is an error
	return share
}
