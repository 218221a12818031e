package autograd

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Accumulate has the gradients of the parameters be sums over several runs of the program,
// see Program.Adding, whose room is in mem. A run adds to them once what it has is complete:
// a sum has the same bits as if the gradients of each run had been kept apart and then been
// added, one run after the other. What a run has is in memory for as long as it takes to add
// it, in room that all parameters share with one another and with the activations.
func (g *Graph) Accumulate(mem core.Memory) { g.sums = mem }

// Adding says whether the runs from now on add to the gradients that are there, or the next
// one begins anew, which is what a program does at first.
func (p *Program) Adding(on bool) { *p.adding = on }

// overRuns appends the sums over several runs to the tape, each as soon as a run's gradient is
// complete, and replaces the gradients by them.
func (p *Program) overRuns(mem core.Memory) {
	uses := usage(p.tape)
	done := map[*slot]*slot{}
	after := map[int][]*instr{} // what comes behind each instruction
	for _, param := range p.params {
		s := p.grads[param]
		if done[s] == nil {
			done[s] = &slot{spec: s.spec, mem: mem, keep: true, lasting: true}
			s.keep = s == p.loss
			at := p.split - 1
			if u := uses[s]; u != nil {
				at = max(at, u.writer)
			}
			after[at] = append(after[at], p.toSum(p.tape[at].path, s, done[s]))
		}
		p.grads[param] = done[s]
	}
	tape := slices.Clip(p.tape[:0:0])
	for i, in := range p.tape {
		tape = append(append(tape, in), after[i]...)
	}
	p.tape = tape
}

// toSum is the instruction that adds a gradient to the sum over runs, or begins that.
func (p *Program) toSum(path string, grad, sum *slot) *instr {
	adding := p.adding
	return &instr{op: "accumulate", path: path, pass: core.Backward, in: refs([]*slot{grad}), out: refs([]*slot{sum}),
		work: core.Work{Elementwise: float64(sum.spec.Shape.Elems()), Bytes: 3 * int64(sum.spec.bytes())},
		bind: func(in *instr) func(context.Context) error {
			dst, src := in.out[0].tensor().Float32s(), in.in[0].tensor().Float32s()
			part := func(lo, hi int) {
				if *adding {
					simd.Add(dst[lo:hi], dst[lo:hi], src[lo:hi])
				} else {
					copy(dst[lo:hi], src[lo:hi])
				}
			}
			return func(context.Context) error { simd.Parallel(len(dst), 1<<14, part); return nil }
		}}
}
