package kernel

import (
	"fmt"

	"github.com/seed98097648/tune/core"
)

// byExpert returns the assignments, numbered t*K + k, sorted by expert, those of one expert
// in the order of their numbers. It reports an expert that does not exist.
func byExpert(c *core.Call) (order []int, err error) {
	E, K, ids := c.Facts.Experts, c.Facts.TopK, c.Input("expert_ids").Int32s()
	of := make([][]int, E)
	for a, e := range ids {
		if e < 0 || int(e) >= E {
			return nil, fmt.Errorf("%s: %w: expert_ids[%d,%d] is %d, there are %d experts", name, core.ErrBadCall, a/K, a%K, e, E)
		}
		of[e] = append(of[e], a)
	}
	for _, assignments := range of {
		order = append(order, assignments...)
	}
	return order, nil
}
