package kerneltest

import (
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops"
)

// Extremes returns cases of op with values at the ends of what arithmetic can hold, for each
// storage type and kind of use, in small sizes. What is large or small is so by row: each
// token has its own scale and is judged by it, from the smallest numbers of the storage type,
// which have fewer digits, to those whose square is almost too large. Arguments of an
// exponential lie beyond where it overflows, in float64 too.
func Extremes(op core.Op) []Case {
	o := ops.Of(op)
	var cases []Case
	for _, d := range storage() {
		for _, f := range kinds(op, d) {
			add := func(kind string, tokens int, edit opdef.Edit, change ...func(*core.Facts)) {
				cases = append(cases, sized(op, f, kind, tokens, func(u *opdef.Use, n int) {
					u.Tokens, u.Edit = n, edit
					for _, change := range change {
						change(&u.Facts)
					}
				}))
			}
			o.Everywhere(d, upstream(op, f), add)
			o.Extremes(f, add)
		}
	}
	return cases
}

// upstream are the gradients that the backward pass starts from.
func upstream(op core.Op, f core.Facts) (names []string) {
	forward, _ := core.NewSignature(op, core.Forward, f)
	backward, _ := core.NewSignature(op, core.Backward, f)
	for _, a := range backward.In {
		if !a.Saved && !slices.ContainsFunc(forward.In, func(b core.Arg) bool { return a.Name == b.Name }) {
			names = append(names, a.Name)
		}
	}
	return names
}
