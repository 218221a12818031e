package kernel

import "github.com/seed98097648/tune/core"

// byExpert returns the assignments, numbered t*K + k, sorted by expert, those of one expert
// in the order of their numbers.
func byExpert(c *core.Call) (order []int) {
	of := make([][]int, c.Facts.Experts)
	for a, e := range c.Input("expert_ids").Int32s() {
		of[e] = append(of[e], a)
	}
	for _, assignments := range of {
		order = append(order, assignments...)
	}
	return order
}
