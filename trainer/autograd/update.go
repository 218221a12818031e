package autograd

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Update has use called with the gradient of each parameter, by the parameter's place among those of
// Compile, as soon as the gradient is complete and nothing of the run reads the parameter any more: use may
// change the parameter. The gradient is gone afterwards, so that gradients share their room with one
// another and with activations, and Program.Grad has none. Gradients are then not summed over runs. An
// error ends the run.
func (g *Graph) Update(use func(param int, gradient []float32) error) { g.update = use }

// updateOp names the instructions that only call what Update was given; no Stat counts them.
const updateOp = "update"

// update puts behind each gradient the instruction that uses it.
func (p *Program) update(use func(int, []float32) error) {
	uses, read := usage(p.tape), map[*slot]int{}
	for i, in := range p.tape {
		for s := range in.reads {
			read[s] = i
		}
	}
	after := map[int][]*instr{}
	for i, param := range p.params {
		grad := p.grads[param]
		at := max(p.split-1, read[param])
		if u := uses[grad]; u != nil {
			at = max(at, u.writer)
		}
		grad.keep = false
		after[at] = append(after[at], p.updater(i, grad, use))
	}
	var tape []*instr
	for i, in := range p.tape {
		tape = append(append(tape, in), after[i]...)
	}
	p.tape = tape
}

func (p *Program) updater(param int, grad *slot, use func(int, []float32) error) *instr {
	return &instr{op: updateOp, pass: core.Backward, in: refs([]*slot{grad}), stat: &Stat{},
		work: core.Work{Bytes: int64(grad.spec.bytes())},
		bind: func(in *instr) func(context.Context) error {
			values := in.in[0].tensor().Float32s()
			return func(context.Context) error {
				if p.looking {
					return nil
				}
				return use(param, values)
			}
		}}
}
