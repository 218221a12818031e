package kerneltest

import (
	"slices"

	"github.com/seed98097648/tune/core"
)

// choice is a fact that is no size: what it is, and how another use of the op is made to have it.
type choice struct {
	Name string
	Of   func(f core.Facts) any
	Take func(f *core.Facts, g core.Facts)
}

// choices are all of them.
var choices = []choice{
	{"dtype", func(f core.Facts) any { return f.DType }, func(f *core.Facts, g core.Facts) { f.DType = g.DType }},
	{"scaling", func(f core.Facts) any { return f.Scaling }, func(f *core.Facts, g core.Facts) {
		f.Scaling, f.WeightDType = g.Scaling, g.WeightDType
	}},
	{"weight_dtype", func(f core.Facts) any { return f.WeightDType },
		func(f *core.Facts, g core.Facts) { f.WeightDType = g.WeightDType }},
	{"offset", func(f core.Facts) any { return f.Offset }, func(f *core.Facts, g core.Facts) { f.Offset = g.Offset }},
	{"cast", castOf, func(f *core.Facts, g core.Facts) { f.Cast = g.Cast }},
	{"activation", func(f core.Facts) any { return f.Activation },
		func(f *core.Facts, g core.Facts) { f.Activation = g.Activation }},
	{"layout", func(f core.Facts) any { return f.Layout }, func(f *core.Facts, g core.Facts) { f.Layout = g.Layout }},
	{"recompute", func(f core.Facts) any { return f.Recompute },
		func(f *core.Facts, g core.Facts) { f.Recompute = g.Recompute }},
	{"pairing", func(f core.Facts) any { return f.Pairing }, func(f *core.Facts, g core.Facts) { f.Pairing = g.Pairing }},
	{"routing", func(f core.Facts) any { return f.Routing }, func(f *core.Facts, g core.Facts) { f.Routing = g.Routing }},
	{"scoring", func(f core.Facts) any { return f.Scoring }, func(f *core.Facts, g core.Facts) { f.Scoring = g.Scoring }},
	{"bias", func(f core.Facts) any { return f.Bias }, func(f *core.Facts, g core.Facts) { f.Bias = g.Bias }},
	{"groups", func(f core.Facts) any { return f.Groups > 1 }, func(f *core.Facts, g core.Facts) {
		f.Groups, f.TopGroups, f.Experts, f.TopK = g.Groups, g.TopGroups, g.Experts, g.TopK
	}},
	{"normalize", func(f core.Facts) any { return f.Normalize },
		func(f *core.Facts, g core.Facts) { f.Normalize = g.Normalize }},
	{"scale", func(f core.Facts) any { return f.Scale != 1 }, func(f *core.Facts, g core.Facts) { f.Scale = g.Scale }},
	{"rank", func(f core.Facts) any { return f.Rank > 0 }, func(f *core.Facts, g core.Facts) {
		f.Rank, f.Scale = g.Rank, g.Scale
	}},
	{"products", func(f core.Facts) any { return f.Products },
		func(f *core.Facts, g core.Facts) { f.Products = g.Products }},
	{"residual", func(f core.Facts) any { return f.Residual },
		func(f *core.Facts, g core.Facts) { f.Residual = g.Residual }},
	{"qk_norm", func(f core.Facts) any { return f.QKNorm }, func(f *core.Facts, g core.Facts) { f.QKNorm = g.QKNorm }},
	{"norm_bias", func(f core.Facts) any { return f.NormBias },
		func(f *core.Facts, g core.Facts) { f.NormBias = g.NormBias }},
	{"window", func(f core.Facts) any { return f.Window > 0 }, func(f *core.Facts, g core.Facts) { f.Window = g.Window }},
	{"frozen", func(f core.Facts) any { return f.Frozen }, func(f *core.Facts, g core.Facts) { f.Frozen = g.Frozen }},
}

// castOf is when the op rounds; float32, in which it computes, has nothing to round.
func castOf(f core.Facts) any {
	if f.DType == core.Float32 {
		return ""
	}
	return f.Cast
}

// combinationsKind is the kind of the cases of combinations, which have so many tokens.
const (
	combinationsKind   = "combinations of facts"
	combinationsTokens = 7
	// mostCombinations is from how many of them on only so many are run that every three of the facts meet.
	mostCombinations = 256
)

// combinations returns a small case for each combination of facts that none of these cases has: those of a model, such
// as a bias, frozen weights and storage in bfloat16, may be ones that nobody thought of.
func combinations(op core.Op, cases []Case) []Case {
	var uses []core.Facts
	for _, d := range storage() {
		uses = append(uses, kinds(op, d)...)
	}
	for _, c := range cases {
		uses = append(uses, c.Facts)
	}
	varied := variedIn(uses)
	met := map[string]bool{}
	for _, f := range uses {
		met[varied.of(f)] = true
	}
	var all []Case
	for _, f := range varied.combined(uses) {
		if set := varied.of(f); !met[set] && f.Validate(op) == nil {
			met[set] = true
			all = append(all, specialCase(op, f, combinationsKind, combinationsTokens))
		}
	}
	if len(all) > mostCombinations {
		all = varied.threeMeet(all)
	}
	return all
}

// varying are choices in which uses differ, each with a use for each of its values.
type varying []struct {
	choice
	from []core.Facts
}

func variedIn(uses []core.Facts) (all varying) {
	for _, c := range choices {
		var from []core.Facts
		seen := map[any]bool{}
		for _, f := range uses {
			if value := c.Of(f); !seen[value] {
				seen[value] = true
				from = append(from, f)
			}
		}
		if len(from) > 1 {
			all = append(all, struct {
				choice
				from []core.Facts
			}{c, from})
		}
	}
	return all
}

// of says which of its values a use has of each.
func (v varying) of(f core.Facts) string {
	all := make([]byte, len(v))
	for i, c := range v {
		value := c.Of(f)
		all[i] = byte(slices.IndexFunc(c.from, func(g core.Facts) bool { return c.Of(g) == value }))
	}
	return string(all)
}

// combined returns all that the first of the uses may become if it takes what others have, choice by choice. Not all
// of them are valid.
func (v varying) combined(uses []core.Facts) []core.Facts {
	all := uses[:1]
	for _, c := range v {
		var next []core.Facts
		for _, from := range c.from {
			for _, f := range all {
				c.Take(&f, from)
				next = append(next, f)
			}
		}
		all = next
	}
	return all
}

// threeMeet leaves the cases in which three choices come together that did so in none before.
func (v varying) threeMeet(cases []Case) []Case {
	type three [6]byte // their places, and values
	met := map[three]bool{}
	return slices.DeleteFunc(cases, func(c Case) bool {
		of, before := v.of(c.Facts), len(met)
		for i := range of {
			for j := range i {
				for k := range j {
					met[three{byte(i), byte(j), byte(k), of[i], of[j], of[k]}] = true
				}
			}
		}
		return len(met) == before
	})
}
