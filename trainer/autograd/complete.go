package autograd

import (
	"cmp"
	"slices"

	"github.com/seed98097648/tune/core"
)

// OnGradient has f told of each parameter's gradient, by its place among the parameters of Compile, as soon as nothing
// changes it any more in a run of the backward pass, which goes on meanwhile; nil for nobody. Gradients that are sums
// over several runs are complete when the run has added to them.
func (p *Program) OnGradient(f func(param int)) { p.complete.told = f }

// GradientOrder returns the parameters in the order in which their gradients become complete.
func (p *Program) GradientOrder() []int {
	at := make([]int, len(p.params))
	order := make([]int, len(p.params))
	for i := range order {
		order[i], at[i] = i, -1
	}
	for k, in := range p.tape {
		for _, i := range in.completes {
			at[i] = k
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	return order
}

// Complete is what becomes complete of the gradients at one moment of a run.
type Complete struct {
	Elems int       // elements of gradients
	After core.Work // what is done from the moment before to this one
}

func (p *Program) completes() []Complete {
	var all []Complete
	var c Complete
	for _, in := range p.tape {
		c.After = c.After.Plus(in.work)
		for _, i := range in.completes {
			c.Elems += p.grads[p.params[i]].spec.bytes() / core.Float32.Size()
		}
		if c.Elems > 0 {
			all, c = append(all, c), Complete{}
		}
	}
	return append(all, c)
}

// completion is who wants to know of gradients.
type completion struct{ told func(param int) }

// marks has each instruction know the gradients that it completes. That of a parameter which the loss does not depend
// on is completed by none.
func (p *Program) marks() {
	uses := usage(p.tape)
	for i, param := range p.params {
		if u := uses[p.grads[param]]; u != nil {
			in := p.tape[u.writer]
			in.completes = append(in.completes, i)
		}
	}
}

// isTold reports whether somebody wants to know of what an instruction completes.
func (c *completion) isTold(in *instr) bool { return c.told != nil && len(in.completes) > 0 }

// after tells of what an instruction has completed.
func (c *completion) after(in *instr) {
	if c.told == nil {
		return
	}
	for _, i := range in.completes {
		c.told(i)
	}
}
