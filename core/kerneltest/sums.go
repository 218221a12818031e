package kerneltest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
)

// checkSums runs the call that has written those outputs again, to add to the outputs to which the
// kernel can, and in one of the cases to each of them alone: a trainer adds to some, and has others
// written, as a weight's first gradient of a step.
func (in *inputs) checkSums(ctx context.Context, k core.Kernel, written *core.Call, m *memory) []Violation {
	if written.Pass != core.Backward {
		return nil
	}
	able := func(a core.Arg) bool { return k.Info().CanAdd(a.Name, in.Tokens) && a.DType == core.Float32 }
	violations := in.checkSumsOf(ctx, k, written, able, m)
	var names []string
	for _, a := range written.Sig.Out {
		if able(a) {
			names = append(names, a.Name)
		}
	}
	if in.Kind != "random" || in.Tokens != 13 || len(names) < 2 || len(violations) > 0 {
		return violations
	}
	for _, name := range names {
		violations = append(violations,
			in.checkSumsOf(ctx, k, written, func(a core.Arg) bool { return a.Name == name }, m)...)
	}
	return violations
}

// checkSumsOf is checkSums for some outputs: each is then what was there and what was written, in one addition, and
// the others are as they were written.
func (in *inputs) checkSumsOf(ctx context.Context, k core.Kernel, written *core.Call, add func(core.Arg) bool,
	m *memory) []Violation {
	c, outputs, err := in.call(written.Pass, m)
	if err != nil {
		return []Violation{violation(written.Pass, "", err)}
	}
	want, rng := make([]core.Tensor, len(c.Out)), rand.New(rand.NewPCG(in.Seed, 5))
	c.Add = make([]bool, len(c.Out))
	at := 0
	for _, a := range c.Sig.Out {
		for i := at; i < at+a.Count; i++ {
			c.Add[i] = add(a)
			want[i] = written.Out[i]
			fill(c.Out[i].Data, poisons[0]) // a large number, as float32: what is added to that is seen
			if c.Add[i] {
				want[i] = sumWith(rng, written.Out[i], c.Out[i])
			}
		}
		at += a.Count
	}
	if !c.Adds() {
		return nil
	}
	if err := core.Run(ctx, k, c); err != nil {
		return []Violation{violation(c.Pass, "", fmt.Errorf("adding to its outputs: error: %w", err))}
	}
	violations := in.checkUntouched(c.Pass, outputs)
	for i, a := range tensors(c.Sig.Out) {
		if err := sameSums(c.Out[i], want[i]); err != nil {
			violations = append(violations, violation(c.Pass, a.Name, err))
		}
	}
	return violations
}

// sumWith fills to with random numbers, and returns their sums with those of x. Nothing less will do: what is there
// has all digits of float32, and another output has something else.
func sumWith(rng *rand.Rand, x, to core.Tensor) core.Tensor {
	sum := core.NewTensor(core.Float32, x.Shape...)
	there, sums := to.Float32s(), sum.Float32s()
	for i, v := range x.Float32s() {
		there[i] = float32(rng.NormFloat64())
		sums[i] = there[i] + v
	}
	return sum
}

// sameSums compares bits; a NaN is as good as another.
func sameSums(got, want core.Tensor) error {
	if want.DType != core.Float32 {
		return sameBits(want, got)
	}
	values := got.Float32s()
	for i, w := range want.Float32s() {
		if v := values[i]; v != w && (v == v || w == w) {
			return fmt.Errorf("%w: in a call that adds to some outputs, %v is %.9g, want %.9g: what was there, plus what "+
				"a call writes that does not add, in one addition", core.ErrWrongResult, index(want.Shape, i), v, w)
		}
	}
	return nil
}
