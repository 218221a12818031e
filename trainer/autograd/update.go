package autograd

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Updates says what becomes of gradients that do not stay; see Graph.Update.
type Updates struct {
	// Use is called with the gradient of each parameter, by the parameter's place among those of Compile, from an element
	// on: all of it, or a part after the other until all was there, in any order.
	Use func(param, from int, gradient []float32) error
	// Unit is what the ends of a parameter's parts must be multiples of, in elements, but for its own end; 0 where only all of
	// the gradient is of use. Nil: of none is a part of use.
	Unit func(param int) int
	// Part is how many elements a part has, about; 0 for as many as are fast.
	Part int
}

// Update has Use called with the gradient of each parameter as soon as it is complete and nothing of the run reads the
// parameter any more: Use may change the parameter. The gradient is gone afterwards, so that gradients share their room
// with one another and with activations, and Program.Grad has none. Of a large gradient only a part is in memory at a time,
// where one operation gives it by parts; see Backward.Parts. Gradients are then not summed over runs. An error ends the run.
func (g *Graph) Update(u Updates) { g.update = &u }

// updateOp names the instructions that only call what Update was given; no Stat counts them.
const updateOp = "update"

// update puts behind each gradient the instruction that uses it.
func (p *Program) update(u *Updates) {
	uses, read := usage(p.tape), map[*slot]int{}
	for i, in := range p.tape {
		for s := range in.reads {
			read[s] = i
		}
	}
	after := map[int][]*instr{}
	for i, param := range p.params {
		grad := p.grads[param]
		grad.keep = false
		if p.updateByParts(&parting{updates: u, param: i, grad: grad, uses: uses, read: read[param]}, after) {
			continue
		}
		at := max(p.split-1, read[param])
		if u := uses[grad]; u != nil {
			at = max(at, u.writer)
		}
		after[at] = append(after[at], p.updater(i, grad, u))
	}
	p.insert(after)
}

// insert puts instructions behind others, and takes those off the tape that are replaced.
func (p *Program) insert(after map[int][]*instr) {
	var tape []*instr
	for i, in := range p.tape {
		if !in.replaced {
			tape = append(tape, in)
		}
		tape = append(tape, after[i]...)
	}
	p.tape = tape
}

func (p *Program) updater(param int, grad *slot, u *Updates) *instr {
	return &instr{op: updateOp, pass: core.Backward, in: refs(grad), stat: &Stat{},
		work: core.Work{Bytes: int64(grad.spec.bytes())},
		bind: func(in *instr) func(context.Context) error {
			values := in.in[0].tensor().Float32s()
			return func(context.Context) error {
				if p.looking {
					return nil
				}
				return u.Use(param, 0, values)
			}
		}}
}
