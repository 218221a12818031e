package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// splitter emits the packing of an operand for tiles: pairs of elements, to be multiplied in
// one step, become the halves of a word, once for each part of them.
type splitter struct {
	parts              int
	wide               bool // what is read is float32, and bfloat16 otherwise
	row, out, odd      reg.Register
	ahead, oddAhead    reg.Register
	stride             reg.Register
	most, least        reg.VecVirtual
	half, high, minus1 reg.VecVirtual
}

// emitSplitters emits those for all kinds of elements.
func emitSplitters() {
	const order = "func(dst *byte, src *%s, n int, plan *int, extremes *uint32)"
	TEXT("splitAMX", NOSPLIT, fmt.Sprintf(order, "float32"))
	Doc("splitAMX writes n tiles of each of the three parts of float32. A part is what is left, rounded to",
		"bfloat16, so that the sum of all three is the element. plan is a splitPlan. Of all elements it",
		"keeps the extremes, twice their bits: 16 largest ones, and 16 smallest ones but zero, less 1.")
	Pragma("noescape")
	(&splitter{parts: 3, wide: true}).emit()
	TEXT("narrowAMX", NOSPLIT, fmt.Sprintf(order, "float32"))
	Doc("narrowAMX is splitAMX for one part alone: the element, rounded to bfloat16, to nearest even.")
	Pragma("noescape")
	(&splitter{parts: 1, wide: true}).emit()
	TEXT("pairAMX", NOSPLIT, fmt.Sprintf(order, "uint16"))
	Doc("pairAMX is splitAMX for bfloat16, which is one part.")
	Pragma("noescape")
	(&splitter{parts: 1}).emit()
}

func (s *splitter) emit() {
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	plan, extremes := Load(Param("plan"), GP64()), Load(Param("extremes"), GP64())
	s.stride, s.odd, s.row, s.out = GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: plan}, s.stride)
	MOVQ(Mem{Base: plan, Disp: 8}, s.odd)
	s.ahead, s.oddAhead = GP64(), GP64()
	MOVQ(Mem{Base: plan, Disp: 32}, s.ahead)
	LEAQ(Mem{Base: s.ahead, Index: s.odd, Scale: 1}, s.oddAhead)
	s.most, s.least, s.half, s.high, s.minus1 = ZMM(), ZMM(), ZMM(), ZMM(), ZMM()
	VMOVDQU32(Mem{Base: extremes}, s.most)
	VMOVDQU32(Mem{Base: extremes, Disp: 64}, s.least)
	VPTERNLOGD(Imm(0xff), s.minus1, s.minus1, s.minus1)
	VPSLLD(Imm(16), s.minus1, s.high)
	VPSRLD(Imm(31), s.minus1, s.half)
	VPSLLD(Imm(15), s.half, s.half)

	Label("tile")
	MOVQ(src, s.row)
	MOVQ(dst, s.out)
	count, bits := GP64(), GP64()
	even, odd := K(), K()
	for phase := range 3 {
		done, loop := fmt.Sprintf("done%d", phase), fmt.Sprintf("row%d", phase)
		at := 40 + 24*phase
		MOVQ(Mem{Base: plan, Disp: at}, count)
		TESTQ(count, count)
		JZ(LabelRef(done))
		MOVQ(Mem{Base: plan, Disp: at + 8}, bits)
		KMOVW(bits.As32(), even)
		MOVQ(Mem{Base: plan, Disp: at + 16}, bits)
		KMOVW(bits.As32(), odd)
		Label(loop)
		PREFETCHT1(Mem{Base: s.row, Index: s.ahead, Scale: 1})
		PREFETCHT1(Mem{Base: s.row, Index: s.oddAhead, Scale: 1})
		s.pairs(even, odd)
		ADDQ(s.stride, s.row)
		ADDQ(Imm(64), s.out)
		DECQ(count)
		JNZ(LabelRef(loop))
		Label(done)
	}
	ADDQ(Mem{Base: plan, Disp: 16}, src)
	ADDQ(Mem{Base: plan, Disp: 24}, dst)
	DECQ(n)
	JNZ(LabelRef("tile"))
	VMOVDQU32(s.most, Mem{Base: extremes})
	VMOVDQU32(s.least, Mem{Base: extremes, Disp: 64})
	VZEROUPPER()
	RET()
}

// pairs writes a row of each part.
func (s *splitter) pairs(even, odd reg.Register) {
	e, o, p := ZMM(), ZMM(), ZMM()
	if !s.wide {
		VPMOVZXWD_Z(Mem{Base: s.row}, even, e)
		VPMOVZXWD_Z(Mem{Base: s.row, Index: s.odd, Scale: 1}, odd, o)
		VPSLLD(Imm(16), o, o)
		VPORD(e, o, p)
		VMOVDQU32(p, Mem{Base: s.out})
		VPSLLD(Imm(17), e, e)
		s.track(e)
		VPADDD(o, o, o)
		s.track(o)
		return
	}
	VMOVUPS_Z(Mem{Base: s.row}, even, e)
	VMOVUPS_Z(Mem{Base: s.row, Index: s.odd, Scale: 1}, odd, o)
	for _, x := range []reg.VecVirtual{e, o} {
		VPADDD(x, x, p)
		s.track(p)
	}
	he, ho := ZMM(), ZMM()
	for part := range s.parts {
		switch {
		case s.parts == 1:
			s.even(e)
			s.even(o)
			he, ho = e, o
		case part == s.parts-1:
			he, ho = e, o
		default:
			s.round(e, he)
			s.round(o, ho)
		}
		VPSRLD(Imm(16), he, p)
		VPORD(p, ho, p)
		VMOVDQU32(p, Mem{Base: s.out, Disp: part * partBytes})
	}
}

// round takes the upper half of x, rounded, from it.
func (s *splitter) round(x, upper reg.VecVirtual) {
	VPADDD(s.half, x, upper)
	VPANDD(s.high, upper, upper)
	VSUBPS(upper, x, x)
}

// even rounds x to bfloat16, to nearest even: half of the last bit that stays, less 1 where that bit is 0.
func (s *splitter) even(x reg.VecVirtual) {
	last := ZMM()
	VPSLLD(Imm(15), x, last)
	VPSRLD(Imm(31), last, last)
	VPADDD(s.minus1, last, last)
	VPADDD(s.half, last, last)
	VPADDD(last, x, x)
	VPANDD(s.high, x, x)
}

// track keeps the extremes of x, bits without their signs, which it destroys. Less 1, zero is
// the largest number.
func (s *splitter) track(x reg.VecVirtual) {
	VPMAXUD(x, s.most, s.most)
	VPADDD(s.minus1, x, x)
	VPMINUD(x, s.least, s.least)
}
