package kerneltest

import (
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

// granules are what a kernel may want widths to be multiples of.
var granules = []int{8, 32, 64, 128, 256}

// remembered asks about the same facts once: a kernel in another process takes its time.
func remembered(supports func(core.Facts) error) func(core.Facts) error {
	known := map[core.Facts]error{}
	return func(f core.Facts) error {
		err, ok := known[f]
		if !ok {
			err = supports(f)
			known[f] = err
		}
		return err
	}
}

// fitting makes the sizes of cases that the kernel does not support larger, until they are
// such multiples as it does, so that one which takes, say, multiples of 64 only is asked about
// sizes as others are. A case that becomes another one is left out; one that never fits stays
// as it is, to be skipped.
func fitting(supports func(core.Facts) error, cases []Case) []Case {
	var all []Case
	for _, c := range cases {
		if f, ok := fit(supports, c.Facts); ok && f != c.Facts {
			c.Facts, c.Name = f, fmt.Sprintf("%s %v T=%d P=%d %s", c.Op, f, c.Tokens, c.Positions, c.Kind)
		}
		all = append(all, c)
	}
	return distinct(all)
}

// fit returns the facts with the least multiples for sizes that the kernel supports, if there are any.
func fit(supports func(core.Facts) error, f core.Facts) (core.Facts, bool) {
	if supports(f) == nil {
		return f, true
	}
	for _, ranks := range []int{1, 8} {
		for _, g := range granules {
			if wider := coarse(f, g, ranks); wider != f && supports(wider) == nil {
				return wider, true
			}
		}
	}
	return f, false
}

// distinct leaves the first of cases of one name.
func distinct(cases []Case) []Case {
	seen := map[string]bool{}
	return slices.DeleteFunc(cases, func(c Case) bool {
		was := seen[c.Name]
		seen[c.Name] = true
		return was
	})
}

// coarse rounds all widths up to multiples of n, and the rank to one of ranks.
func coarse(f core.Facts, n, ranks int) core.Facts {
	for _, size := range []*int{&f.Dim, &f.Out, &f.Intermediate, &f.HeadDim, &f.RotaryDim, &f.Vocab} {
		*size = up(*size, n)
	}
	f.Rank = up(f.Rank, ranks)
	return f
}

// up rounds up to a multiple of n.
func up(size, n int) int { return (size + n - 1) / n * n }
