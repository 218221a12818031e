package autograd

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Accumulate has the gradients of the parameters be sums over several runs of the program,
// see Program.Adding. A run adds to them once what it has is complete: a sum has the same bits
// as if the gradients of each run had been kept apart and then been added, one run after the
// other.
//
// A gradient that one kernel alone writes, which can add it, is summed where the kernel writes.
// The others have their sums in mem; what a run has is in memory for as long as it takes to add
// it, in room that all parameters share with one another and with the activations.
func (g *Graph) Accumulate(mem core.Memory) { g.sums = mem }

// Adding says whether the runs from now on add to the gradients that are there, or the next
// one begins anew, which is what a program does at first.
func (p *Program) Adding(on bool) { p.sums.adding = on }

// Apart says whether kernels that can add to a sum are kept from it from now on: they write
// elsewhere, for a moment, and this process adds. A call that dies can then be repeated, where it
// would otherwise fail with core.ErrSpoiled. The bits are the same.
func (p *Program) Apart(on bool) { p.sums.apart = on }

// overRuns is how gradients are summed over several runs.
type overRuns struct {
	adding, apart bool
	written       map[*slot]bool // the sums that kernels add to themselves
}

// accumulate makes the gradients sums over several runs: in their own place, or by an instruction
// of their own as soon as a run's gradient is complete.
func (p *Program) accumulate(mem core.Memory) {
	uses := usage(p.tape)
	sums := map[*slot]*slot{}
	after := map[int][]*instr{} // what comes behind each instruction
	p.sums.written = map[*slot]bool{}
	for i, param := range p.params {
		grad := p.grads[param]
		if sums[grad] == nil {
			u := uses[grad]
			if p.addsWhole(i, u) {
				sums[grad] = p.written(grad, u)
			} else {
				sums[grad] = p.sumOf(grad, u, mem, after)
			}
		}
		p.grads[param] = sums[grad]
	}
	p.insert(after)
}

// addsWhole reports whether the instruction that writes a gradient can add it to the sum over runs. It might, of fewer
// tokens, where that of the program around this one cannot; then the sum is not its kernel's.
func (p *Program) addsWhole(param int, u *use) bool {
	if u == nil || p.within != nil && !p.within.sums.written[p.within.grads[p.within.params[param]]] {
		return false
	}
	in := p.tape[u.writer]
	return slices.Contains(in.whole, u.out) && !in.addsTo(u.out) && len(u.readers) == 0
}

// written has the instruction that writes a gradient add it to the sum over runs, and returns that.
func (p *Program) written(grad *slot, u *use) *slot {
	in := p.tape[u.writer]
	in.onto, in.sums, grad.lasting, p.sums.written[grad] = append(in.onto, u.out), &p.sums, true, true
	return grad
}

// sumOf returns the sum over runs of a gradient, written as u says, to which an instruction of its own adds.
func (p *Program) sumOf(grad *slot, u *use, mem core.Memory, after map[int][]*instr) *slot {
	at := p.split - 1
	if u != nil {
		at = max(at, u.writer)
	}
	sum := &slot{spec: grad.spec, mem: mem, keep: true, lasting: true}
	grad.keep = false
	after[at] = append(after[at], p.toSum(p.tape[at].path, grad, sum))
	return sum
}

// toSum is the instruction that adds a gradient to the sum over runs, or begins that.
func (p *Program) toSum(path string, grad, sum *slot) *instr {
	return &instr{op: "accumulate", path: path, pass: core.Backward, in: refs(grad), out: refs(sum),
		work: core.Work{Elementwise: float64(sum.spec.Shape.Elems()), Bytes: 3 * int64(sum.spec.bytes())},
		bind: func(in *instr) func(context.Context) error {
			dst, src := in.out[0].tensor().Float32s(), in.in[0].tensor().Float32s()
			part := func(lo, hi int) {
				if p.sums.adding {
					simd.Add(dst[lo:hi], dst[lo:hi], src[lo:hi])
				} else {
					copy(dst[lo:hi], src[lo:hi])
				}
			}
			return func(context.Context) error { simd.Parallel(len(dst), 1<<14, part); return nil }
		}}
}
