package nn

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// HoldsNF4 reports whether the parameter can be NF4: no two of its entries share a block, and all are of one size.
func (p *Param) HoldsNF4() bool {
	for _, e := range p.Entries {
		if n := e.Shape.Elems(); len(p.Entries) > 1 && (n%simd.NF4Block > 0 || n != p.Entries[0].Shape.Elems()) {
			return false
		}
	}
	return true
}

// allocNF4 gives a parameter in NF4 memory for what its elements are multiplied by.
func (p *Param) allocNF4(mem core.Memory) (err error) {
	if !p.HoldsNF4() {
		return fmt.Errorf("its tensors do not begin with blocks of %d elements, as NF4 wants it", simd.NF4Block)
	}
	matrices := max(1, len(p.Entries))
	each := p.Tensor.Elems() / matrices
	if p.absmax, err = core.NewTensorIn(mem, core.Int8, matrices*simd.NF4Blocks(each)); err != nil {
		return err
	}
	if err = p.allocScale(mem, simd.NF4Scales(matrices, each)); err == nil {
		simd.LinearNF4Map(p.Scale)
	}
	return err
}

// nf4 is the parameter, with codes as an operation gets them.
func (p *Param) nf4(codes core.Tensor) *simd.NF4 {
	return &simd.NF4{Codes: codes.Data, Absmax: p.absmax.Int8s(), Scale: p.Scale, Matrices: max(1, len(p.Entries))}
}

func (p *Param) quantiseNF4(e Entry, from core.Tensor) {
	n := e.Shape.Elems()
	p.nf4(p.Tensor).Quantise(e.Offset/n, n, from.Load)
}
