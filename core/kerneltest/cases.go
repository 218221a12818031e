package kerneltest

import (
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops"
)

// Cases returns the standard cases of op: CasesFor on a range of facts that covers the
// op's variants, in odd and even sizes, for each storage type, some with frozen weights;
// and a small one for each other combination of facts that are no sizes.
func Cases(op core.Op) []Case {
	var cases []Case
	for _, d := range storage() {
		for i, f := range ops.Of(op).Variants {
			f = ofType(op, f, d)
			cases = append(cases, CasesFor(op, f)...)
			if op.HasWeights() && i%2 == 0 && !f.Frozen {
				f.Frozen = true
				cases = append(cases, CasesFor(op, f)...)
			}
		}
	}
	return append(cases, combinations(op, cases)...)
}

// stored returns facts with tensors of a storage type, weights included.
func stored(op core.Op, f core.Facts, d core.DType) core.Facts {
	f.DType = d
	if op.HasWeights() {
		f.WeightDType = d
	}
	return f
}

// ofType is stored, but for weights that have another type of their own.
func ofType(op core.Op, f core.Facts, d core.DType) core.Facts {
	if f.WeightDType == core.InvalidDType {
		return stored(op, f, d)
	}
	f.DType = d
	return f
}

// kinds are the uses of an op that are as small as can be, in a storage type.
func kinds(op core.Op, d core.DType) []core.Facts {
	all := slices.Clone(ops.Of(op).Kinds)
	for i, f := range all {
		all[i] = ofType(op, f, d)
	}
	return all
}

// CasesFor returns the standard cases of op with these facts: one token, odd numbers of
// tokens that leave 1 and 3 over after fours, and 5 and 7 after eights, enough of them for
// several blocks, NaN and infinity, and what is special about the op, such as very large values
// or experts without token.
func CasesFor(op core.Op, f core.Facts) []Case {
	o := ops.Of(op)
	var cases []Case
	add := func(kind string, tokens int, edit opdef.Edit, _ ...func(*core.Facts)) {
		c := specialCase(op, f, kind, tokens)
		c.Edit = edit
		cases = append(cases, c)
	}
	add("one token", 1, nil)
	for _, tokens := range []int{7, 13, 70} {
		add("random", tokens, nil)
	}
	add("nan and inf", 9, o.NotFinite)
	if o.Cases != nil {
		o.Cases(f, add)
	}
	return cases
}
