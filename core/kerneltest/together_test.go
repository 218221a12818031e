package kerneltest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// choices are the facts that are no sizes: what each is, and how another use of the op is made to have it.
var choices = []struct {
	name string
	of   func(f core.Facts) any
	take func(f *core.Facts, g core.Facts)
}{
	{"dtype", func(f core.Facts) any { return f.DType }, func(f *core.Facts, g core.Facts) { f.DType = g.DType }},
	{"weight_dtype", func(f core.Facts) any { return f.WeightDType },
		func(f *core.Facts, g core.Facts) { f.WeightDType = g.WeightDType }},
	{"offset", func(f core.Facts) any { return f.Offset }, func(f *core.Facts, g core.Facts) { f.Offset = g.Offset }},
	{"cast", func(f core.Facts) any { return f.Cast }, func(f *core.Facts, g core.Facts) { f.Cast = g.Cast }},
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
	{"scaling", func(f core.Facts) any { return f.Scaling }, func(f *core.Facts, g core.Facts) {
		f.Scaling, f.WeightDType = g.Scaling, g.WeightDType
	}},
	{"residual", func(f core.Facts) any { return f.Residual },
		func(f *core.Facts, g core.Facts) { f.Residual = g.Residual }},
	{"qk_norm", func(f core.Facts) any { return f.QKNorm }, func(f *core.Facts, g core.Facts) { f.QKNorm = g.QKNorm }},
	{"norm_bias", func(f core.Facts) any { return f.NormBias },
		func(f *core.Facts, g core.Facts) { f.NormBias = g.NormBias }},
	{"window", func(f core.Facts) any { return f.Window > 0 }, func(f *core.Facts, g core.Facts) { f.Window = g.Window }},
	{"frozen", func(f core.Facts) any { return f.Frozen }, func(f *core.Facts, g core.Facts) { f.Frozen = g.Frozen }},
}

// pair are two of the choices, as a use has them.
type pair struct {
	a, b int
	of   [2]any
}

func pairOf(a, b int, f core.Facts) pair {
	return pair{a, b, [2]any{choices[a].of(f), choices[b].of(f)}}
}

func (p pair) String() string {
	return fmt.Sprintf("%s %v with %s %v", choices[p.a].name, p.of[0], choices[p.b].name, p.of[1])
}

// TestEveryTwoFactsMeet: a kernel that goes wrong where two of its uses come together is found by some case.
func TestEveryTwoFactsMeet(t *testing.T) {
	for _, op := range core.Ops() {
		var uses []core.Facts
		seen := map[core.Facts]bool{}
		for _, c := range slices.Concat(kerneltest.Cases(op), kerneltest.Extremes(op), kerneltest.Sizes(op)) {
			if !seen[c.Facts] {
				seen[c.Facts] = true
				uses = append(uses, c.Facts)
			}
		}
		uses = chosenApart(uses)
		met, missing := map[pair]bool{}, map[pair]bool{}
		for i := range choices {
			for j := i + 1; j < len(choices); j++ {
				for _, f := range uses {
					met[pairOf(i, j, f)] = true
				}
				for _, f := range uses {
					for _, from := range uses {
						both := f
						choices[j].take(&both, from)
						if p := pairOf(i, j, both); !met[p] && !missing[p] && both.Validate(op) == nil {
							missing[p] = true
							t.Errorf("%s: no case has %v", op, p)
						}
					}
				}
			}
		}
	}
}

// chosenApart returns one use for each set of choices.
func chosenApart(uses []core.Facts) []core.Facts {
	seen := map[string]bool{}
	return slices.DeleteFunc(uses, func(f core.Facts) bool {
		var all []any
		for _, a := range choices {
			all = append(all, a.of(f))
		}
		set := fmt.Sprint(all)
		was := seen[set]
		seen[set] = true
		return was
	})
}
