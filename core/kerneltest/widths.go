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

// fitting makes the widths of cases that the kernel does not support larger, until they are
// such multiples as it does, so that one which takes, say, multiples of 64 only is asked about
// sizes as others are. A case that becomes another one is left out; one that never fits stays
// as it is, to be skipped.
func fitting(supports func(core.Facts) error, cases []Case) []Case {
	var all []Case
	for _, c := range cases {
		if supports(c.Facts) != nil {
			for _, g := range granules {
				wider := c
				wider.Facts = coarse(c.Facts, g)
				if wider.Facts != c.Facts && supports(wider.Facts) == nil {
					wider.Name = fmt.Sprintf("%s %v T=%d P=%d %s", c.Op, wider.Facts, c.Tokens, c.Positions, c.Kind)
					c = wider
					break
				}
			}
		}
		all = append(all, c)
	}
	return distinct(all)
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

// coarse rounds all widths up to multiples of n.
func coarse(f core.Facts, n int) core.Facts {
	for _, size := range []*int{&f.Dim, &f.Intermediate, &f.HeadDim, &f.RotaryDim, &f.Vocab} {
		*size = (*size + n - 1) / n * n
	}
	return f
}
