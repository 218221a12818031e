package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// write emits the end of a pass: of each row, from one on, the sums of the lanes of all its vectors, in the same order
// however many there are.
func (f *few) write(from, cols int) {
	y, stride := Load(Param("y"), GP64()), Load(Param("strideY"), GP64())
	if from > 0 {
		LEAQ(Mem{Base: y, Index: stride, Scale: uint8(from)}, y)
	}
	for i, sums := range f.sums {
		pairs := []reg.VecVirtual{f.halve(sums[0], sums[min(1, cols-1)], VUNPCKLPS, VUNPCKHPS)}
		if cols > 2 {
			pairs = append(pairs, f.halve(sums[2], sums[cols-1], VUNPCKLPS, VUNPCKHPS))
		}
		s := f.halve(pairs[0], pairs[len(pairs)-1], VUNPCKLPD, VUNPCKHPD)
		if f.v.lanes == 16 {
			high := YMM()
			VEXTRACTF64X4(Imm(1), s, high)
			VADDPS(high, s.AsY(), s.AsY())
		}
		high := XMM()
		if f.v.lanes == 16 {
			VEXTRACTF32X4(Imm(1), s.AsY(), high)
		} else {
			VEXTRACTF128(Imm(1), s, high)
		}
		VADDPS(high, s.AsX(), s.AsX())
		f.addTo(Mem{Base: y}, s.AsX(), cols)
		if i < f.rows-1 {
			ADDQ(stride, y)
		}
	}
}

// addTo adds the first lanes of s to as many numbers.
func (f *few) addTo(y Mem, s reg.Register, lanes int) {
	third, before := y.Offset(8), XMM()
	switch lanes {
	case 1:
		VADDSS(y, s, s)
		VMOVSS(s, y)
	case 2, 3:
		VMOVSD(y, before)
		if lanes == 3 {
			VINSERTPS(Imm(2<<4), third, before, before)
		}
		VADDPS(before, s, s)
		VMOVSD(s, y)
		if lanes == 3 {
			VEXTRACTPS(Imm(2), s, third)
		}
	default:
		VADDPS(y, s, s)
		VMOVUPS(s, y)
	}
}

// halve adds half of the lanes of a to the other half, and those of b, side by side.
func (f *few) halve(a, b reg.VecVirtual, low, high func(...Op)) reg.VecVirtual {
	l, h := f.v.reg(), f.v.reg()
	low(b, a, l)
	high(b, a, h)
	VADDPS(h, l, l)
	return l
}
