package kerneltest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

var choices = kerneltest.Choices

// pair are two of the choices, as a use has them.
type pair struct {
	a, b int
	of   [2]any
}

func pairOf(a, b int, f core.Facts) pair {
	return pair{a, b, [2]any{choices[a].Of(f), choices[b].Of(f)}}
}

func (p pair) String() string {
	return fmt.Sprintf("%s %v with %s %v", choices[p.a].Name, p.of[0], choices[p.b].Name, p.of[1])
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
		uses = apart(uses, choices...)
		met, missing := map[pair]bool{}, map[pair]bool{}
		for i := range choices {
			for j := i + 1; j < len(choices); j++ {
				others := apart(uses, choices[j])
				for _, f := range uses {
					met[pairOf(i, j, f)] = true
				}
				for _, f := range uses {
					for _, from := range others {
						both := f
						choices[j].Take(&both, from)
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

// apart returns one use for each set of values that these choices have.
func apart(uses []core.Facts, of ...kerneltest.Choice) []core.Facts {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(uses), func(f core.Facts) bool {
		var all []any
		for _, c := range of {
			all = append(all, c.Of(f))
		}
		set := fmt.Sprint(all...)
		was := seen[set]
		seen[set] = true
		return was
	})
}
