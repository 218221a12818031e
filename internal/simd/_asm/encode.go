package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// encoder finds the code nearest to a number. With AVX-512 it takes the line of the number's decade, and looks into the
// table of borders only where that comes too near to one to tell; with AVX2 it always does.
type encoder struct {
	l                                    *loop
	tables                               Register // the borders of a map
	edge, part, slope, start, most, none reg.VecVirtual
}

// Where the parts of the borders of a map begin, in bytes.
const (
	edgeAt  = 0
	partAt  = edgeAt + 4*16
	slopeAt = partAt + 4*16
	startAt = slopeAt + 4*16
	mostAt  = startAt + 4*16
	leastAt = mostAt + 4*16
)

// nearMask has the bits of 65536 * (y + 2^-13) that are all zero where y is within 2^-13 of a whole number.
const nearMask = 0xfff0

func newEncoder(l *loop, tables Register, signed bool) *encoder {
	e := &encoder{l: l, tables: tables, none: l.v.reg()}
	zero(e.none)
	if l.v.lanes < 16 {
		return e
	}
	at := func(offset int) reg.VecVirtual {
		r := ZMM()
		VMOVUPS(Mem{Base: tables, Disp: offset}, r)
		return r
	}
	e.edge, e.part = at(edgeAt), at(partAt)
	e.slope, e.start, e.most = at(slopeAt), at(startAt), at(mostAt)
	l.hold(0x34000000, 0x3f800000, 1, nearMask)
	if signed {
		l.hold(0x7fffffff, 126, 127, 254)
	}
	return e
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
	l.narrow8()
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
		VPMAXSD(l.word(0x34000000), low, low) // 2^-23, which is below every border
		VPMINSD(l.word(0x3f800000), low, low)
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
		VMOVDQA32(e.byTable(low), n)
		JMP(LabelRef("counted"))
	}
}

// byLine returns how many borders are below each number: the whole part of a line in its decade.
func (e *encoder) byLine(low reg.VecVirtual) reg.VecVirtual {
	const greater = 0x1e
	at, edge, y, most, n, k := ZMM(), ZMM(), ZMM(), ZMM(), ZMM(), K()
	VPSRLD(Imm(24), low, at)
	VPERMPS(e.edge, at, edge)
	VCMPPS(Imm(greater), edge, low, k)
	VPERMPS(e.part, at, at)
	VPADDD(e.l.word(1), at, k, at)
	slope := ZMM()
	VPERMPS(e.slope, at, slope)
	VPERMPS(e.start, at, y)
	VPERMPS(e.most, at, most)
	VFMADD231PS(slope, low, y)
	VMINPS(most, y, y)
	VCVTPS2DQ(y, n)
	VPTESTMD(e.l.word(nearMask), n, k)
	VPSRLD(Imm(16), n, n)
	KORTESTW(k, k)
	JCC(LabelRef("near"))
	Label("counted")
	return n
}

// byTable returns the same from the table of all borders.
func (e *encoder) byTable(low reg.VecVirtual) reg.VecVirtual {
	l := e.l
	n, border, rest := l.v.reg(), l.v.reg(), l.v.reg()
	key := reg.Register(rest)
	if l.v.lanes == 8 { // QEMU 7.2, on which the gate runs this, takes the fourth register as an index for none
		key = reg.Y15
	}
	VPSRLD(Imm(16), low, key)
	VPSUBD(bits(0x3380), key, key)
	l.gather(Mem{Base: e.tables, Disp: leastAt, Index: key, Scale: 4}, n)
	VPSRLD(Imm(8), n, border)
	l.and(bits(0xffff), low, rest)
	l.and(bits(0xff), n, n)
	l.countAbove(rest, border, n)
	return n
}

// withSign makes codes of the distances n from the one of 0: to the other side, by at least one, where
// q is negative.
func (e *encoder) withSign(q, n reg.VecVirtual) {
	const less = 0x11
	l := e.l
	VPADDD(l.word(127), n, n)
	if l.v.lanes == 16 {
		k := K()
		VCMPPS(Imm(less), e.none, q, k)
		VPSUBD(n, l.word(254), k, n)
		VPMINSD(l.word(126), n, k, n)
		VPMAXSD(e.none, n, k, n)
		return
	}
	below := l.v.reg()
	VMOVUPS(l.word(254), below)
	VPSUBD(n, below, below)
	VPMINSD(l.word(126), below, below)
	VPMAXSD(e.none, below, below)
	VCMPPS(Imm(less), e.none, q, q)
	VBLENDVPS(q, below, n, n)
}
