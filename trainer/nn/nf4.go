package nn

import (
	"fmt"
	"slices"

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

// SetNF4 fills an entry from codes and what their blocks are multiplied by, which is a code as well:
// values[code] * scale + mean, where simd.NF4Nested of them have one scale. All entries have the same 256 values.
func (p *Param) SetNF4(e Entry, codes, absmax []byte, values, scale []float32, mean float32) error {
	if p.Tensor.DType != core.NF4 {
		return fmt.Errorf("nn: %s is %s, and not nf4", e.Name, p.Tensor.DType)
	}
	n := e.Shape.Elems()
	q, blocks, own := p.nf4(p.Tensor), simd.NF4Blocks(n), p.Scale[:len(values)]
	nested := p.Scale[simd.NF4Scales(e.Offset/n, n):simd.NF4Scales(e.Offset/n+1, n)]
	switch {
	case len(codes) != (n+1)/2 || len(absmax) != blocks || len(scale) != len(nested)-1:
		return fmt.Errorf("nn: %s has %d codes, %d of blocks and %d scales, want %d, %d and %d", e.Name, len(codes),
			len(absmax), len(scale), (n+1)/2, blocks, len(nested)-1)
	case len(values) != simd.NF4Scales(0, n):
		return fmt.Errorf("nn: %s has %d values of blocks, want %d", e.Name, len(values), simd.NF4Scales(0, n))
	case e.Offset > 0 && !slices.Equal(own, values):
		return fmt.Errorf("nn: %s has other values of blocks than the tensors that it lies beside", e.Name)
	}
	p.Written()
	copy(own, values)
	nested[0] = mean
	copy(nested[1:], scale)
	copy(q.Codes[e.Offset/2:], codes)
	for i, code := range absmax {
		q.Absmax[e.Offset/n*blocks+i] = int8(code)
	}
	return nil
}

func (p *Param) quantiseNF4(e Entry, from core.Tensor) {
	n, q := e.Shape.Elems(), p.nf4(p.Tensor)
	p.ownMap(e)
	q.Quantise(e.Offset/n, n, from.Load)
}

// ownMap makes the values that blocks' numbers are codes of those that Quantise wants, where SetNF4 has brought others. The entries
// but for e, which have the same values, are quantised again.
func (p *Param) ownMap(e Entry) {
	own := p.Scale[:simd.NF4Scales(0, 0)]
	linear := make([]float32, len(own))
	if simd.LinearNF4Map(linear); slices.Equal(own, linear) {
		return
	}
	n, q := e.Shape.Elems(), p.nf4(p.Tensor)
	wide := map[int][]float32{}
	for _, other := range p.Entries {
		if other.Offset != e.Offset {
			wide[other.Offset/n] = make([]float32, n)
			q.Load(wide[other.Offset/n], other.Offset)
		}
	}
	copy(own, linear)
	for i, w := range wide {
		q.Quantise(i, n, func(dst []float32, from int) { copy(dst, w[from:]) })
	}
}

// NF4Of returns what SetNF4 was given, or would be, to fill an entry so.
func (p *Param) NF4Of(e Entry) (codes, absmax []byte, values, scale []float32, mean float32) {
	n, q := e.Shape.Elems(), p.nf4(p.Tensor)
	blocks := simd.NF4Blocks(n)
	for _, code := range q.Absmax[e.Offset/n*blocks:][:blocks] {
		absmax = append(absmax, byte(code))
	}
	nested := p.Scale[simd.NF4Scales(e.Offset/n, n):simd.NF4Scales(e.Offset/n+1, n)]
	return q.Codes[e.Offset/2:][:(n+1)/2], absmax, p.Scale[:simd.NF4Scales(0, n)], nested[1:], nested[0]
}
