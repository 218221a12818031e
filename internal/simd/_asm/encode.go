package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// encoder finds the code nearest to a number. With AVX-512 it takes the line of the number's part, and looks into the
// table of borders only where that comes too near to one to tell; with AVX2 it always does. With AVX-512 codes are
// the upper halves of words, whose lower ones mean nothing.
type encoder struct {
	l                  *loop
	signed             bool
	tables             Register // the borders of a map
	edge, none         reg.VecVirtual
	slope, start, most [2]reg.VecVirtual
}

// Where the parts of the borders of a map begin, in bytes.
const (
	edgeAt  = 0
	slopeAt = edgeAt + 4*16
	startAt = slopeAt + 2*4*16
	mostAt  = startAt + 2*4*16
	leastAt = mostAt + 2*4*16
)

// nearMask has the bits of 65536 * (y + 2^-13) that are all zero where y is within 2^-13 of a whole number.
const nearMask = 0xfff0

// tiny is 2^-23, which is below every border.
const tiny = 0x34000000

func newEncoder(l *loop, tables Register, signed bool) *encoder {
	e := &encoder{l: l, signed: signed, tables: tables, none: l.v.reg()}
	zero(e.none)
	if l.v.lanes < 16 {
		return e
	}
	at := func(offset int) reg.VecVirtual {
		r := ZMM()
		VMOVUPS(Mem{Base: tables, Disp: offset}, r)
		return r
	}
	e.edge = at(edgeAt)
	for side := range 2 {
		e.slope[side], e.start[side], e.most[side] = at(slopeAt+64*side), at(startAt+64*side), at(mostAt+64*side)
	}
	l.hold(tiny, nearMask, otherSide)
	if signed {
		l.hold(0x7fffffff, e.code(126), e.code(254))
	}
	return e
}

// code returns the largest word that means a code.
func (e *encoder) code(number uint32) uint32 {
	if e.l.v.lanes == 16 {
		return number<<16 | 0xffff
	}
	return number
}

// encodeCodes emits the nearest codes: those of unsigned begin with 0, those of signed have it at 127.
func encodeCodes(v isa, signed bool) {
	name, zeroAt := "encodeUnsigned", "0"
	if signed {
		name, zeroAt = "encodeSigned", "127"
	}
	l := begin(v, name, "func(dst []uint8, x []float32, borders *float32, scales []float32)", []string{"dst", "x", "scales"},
		"for i := range dst {", "	dst[i] = nearest(1 / scales[i/256] * x[i])", "}, len(dst) a multiple of 16, zero at "+zeroAt)
	l.whole = true
	by := v.reg()
	l.narrow8(2)
	e := newEncoder(l, Load(Param("borders"), GP64()), signed)
	var low, n reg.VecVirtual
	l.eachBlock(func() {
		VMOVUPS(bits(0x3f800000), by)
		scale := v.reg()
		VBROADCASTSS(Mem{Base: l.base["scales"]}, scale)
		VDIVPS(scale, by, by)
		ADDQ(Imm(4), l.base["scales"])
	}, func() {
		q := l.load("x")
		VMULPS(by, q, q)
		low = q
		if signed {
			low = v.reg()
			l.magnitude(q, low)
		}
		VPMAXSD(l.word(tiny), low, low)
		if v.lanes == 16 {
			n = e.byLine(low)
		} else {
			n = e.byTable(low)
		}
		if signed {
			e.withSign(q, n)
		}
		l.store8(n, "dst")
	}, func() {})
	l.end()
	if v.lanes == 16 {
		Label("near")
		VPSLLD(Imm(16), e.byTable(low), n)
		JMP(LabelRef("counted"))
	}
}

// otherSide takes an index from a line up to an edge, of which bit 4 is set, to the one above: 2^-23 to 2 have 0x34 to
// 0x3f as the first eight bits.
const otherSide = 16

// byLine returns the codes of numbers of the side of 0 and above: the whole part of a line.
func (e *encoder) byLine(low reg.VecVirtual) reg.VecVirtual {
	const greater = 0x1e
	at, edge, n, k := ZMM(), ZMM(), ZMM(), K()
	VPSRLD(Imm(24), low, at)
	VPERMPS(e.edge, at, edge)
	VCMPPS(Imm(greater), edge, low, k)
	VPADDD(e.l.word(otherSide), at, k, at)
	take := func(of [2]reg.VecVirtual) reg.VecVirtual {
		r := ZMM()
		VMOVDQA32(at, r)
		VPERMI2PS(of[0], of[1], r)
		return r
	}
	y, start := take(e.slope), take(e.start)
	VFMADD213PS(start, low, y)
	VMINPS(take(e.most), y, y)
	VCVTPS2DQ(y, n)
	VPTESTMD(e.l.word(nearMask), n, k)
	KORTESTW(k, k)
	JCC(LabelRef("near"))
	Label("counted")
	return n
}

// byTable returns the same from the table of all borders, as lower halves.
func (e *encoder) byTable(low reg.VecVirtual) reg.VecVirtual {
	l := e.l
	n, border, rest := l.v.reg(), l.v.reg(), l.v.reg()
	// As an index for gather, QEMU 7.2 takes the fourth register for none, and Bochs 3.0 refuses those past the sixteenth.
	key := reg.Register(reg.Y15)
	if l.v.lanes == 16 {
		key = reg.Z15
	}
	VPMINSD(bits(0x3f800000), low, low) // what is not finite is in the table, too
	VPSRLD(Imm(16), low, key)
	VPSUBD(bits(0x3380), key, key)
	l.gather(Mem{Base: e.tables, Disp: leastAt, Index: key, Scale: 4}, n)
	VPSRLD(Imm(8), n, border)
	l.and(bits(0xffff), low, rest)
	l.and(bits(0xff), n, n)
	l.countAbove(rest, border, n)
	if e.signed {
		VPADDD(bits(127), n, n)
	}
	return n
}

// withSign takes codes to the other side of 0, and at least one from there, where q is negative.
func (e *encoder) withSign(q, n reg.VecVirtual) {
	const less = 0x11
	l, most, twice := e.l, e.l.word(e.code(126)), e.l.word(e.code(254))
	if l.v.lanes == 16 {
		k := K()
		VCMPPS(Imm(less), e.none, q, k)
		VPSUBD(n, twice, k, n)
		VPMINSD(most, n, k, n)
		VPMAXSD(e.none, n, k, n)
		return
	}
	below := l.v.reg()
	VMOVUPS(twice, below)
	VPSUBD(n, below, below)
	VPMINSD(most, below, below)
	VPMAXSD(e.none, below, below)
	VCMPPS(Imm(less), e.none, q, q)
	VBLENDVPS(q, below, n, n)
}
