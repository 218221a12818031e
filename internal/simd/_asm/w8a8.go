package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitInt8 emits the blocks of sums of products of int8. AVX2 has no exact way for bytes: VPMADDUBSW saturates in
// int16. So it widens both to int16, whose products VPMADDWD adds up in int32.
func emitInt8() {
	for _, rows := range []int{1, 4} {
		for _, cols := range []int{1, 4} {
			vnniBlock(rows, cols)
		}
	}
	for _, rows := range []int{1, 2} {
		for _, cols := range []int{1, 4} {
			widenedBlock(rows, cols)
		}
	}
}

// int8Loop is the frame of both: registers that walk over rows which lie one after the other.
type int8Loop struct {
	q, w   []Register
	k      Register
	sums   [][]reg.VecVirtual
	result Register
}

func beginInt8(name string, rows, cols int, vector func() reg.VecVirtual, doc ...string) *int8Loop {
	TEXT(name, NOSPLIT, "func(k int, q, w *int8, sums *int32)")
	Doc(append([]string{name + " is", ""}, doc...)...)
	Pragma("noescape")
	l := &int8Loop{k: Load(Param("k"), GP64()), result: Load(Param("sums"), GP64())}
	pointers := func(first Register, n int) []Register {
		all := []Register{first}
		for i := 1; i < n; i++ {
			next := GP64()
			LEAQ(Mem{Base: all[i-1], Index: l.k, Scale: 1}, next)
			all = append(all, next)
		}
		return all
	}
	l.q, l.w = pointers(Load(Param("q"), GP64()), rows), pointers(Load(Param("w"), GP64()), cols)
	for range rows {
		var row []reg.VecVirtual
		for range cols {
			v := vector()
			zero(v)
			row = append(row, v)
		}
		l.sums = append(l.sums, row)
	}
	return l
}

// vnniBlock: VPDPBUSD multiplies bytes without a sign by bytes with one, and adds four products in int32 without
// saturating. The weight gets 128 more, which turning its first bit round does, and no sign; who calls it takes 128 times the
// sum of a row of q away.
func vnniBlock(rows, cols int) {
	l := beginInt8(fmt.Sprintf("int8Block%dx%dVNNI", rows, cols), rows, cols, func() reg.VecVirtual { return ZMM() },
		fmt.Sprintf("	for i := range %d {", rows), fmt.Sprintf("		for j := range %d {", cols),
		fmt.Sprintf("			for at := range k { sums[i*%d+j] += q[i*k+at] * (w[j*k+at] + 128) }", cols), "		}", "	}")
	flip := ZMM()
	VPBROADCASTD(bits(0x80808080), flip)
	at, limit, ahead := GP64(), GP64(), GP64()
	XORQ(at, at)
	MOVQ(l.k, limit)
	SUBQ(Imm(64), limit)
	if cols > 1 { // where the rows of the next block are, which are asked for meanwhile
		LEAQ(Mem{Base: at, Index: l.k, Scale: 4}, ahead)
	}
	step := func(load func(from Mem, to reg.VecVirtual)) {
		var q []reg.VecVirtual
		for i := range rows {
			r := ZMM()
			load(Mem{Base: l.q[i], Index: at, Scale: 1}, r)
			q = append(q, r)
		}
		for j := range cols {
			w := ZMM()
			load(Mem{Base: l.w[j], Index: at, Scale: 1}, w)
			VPXORD(flip, w, w)
			for i := range rows {
				VPDPBUSD(q[i], w, l.sums[i][j])
			}
		}
	}
	Label("vectors")
	CMPQ(at, limit)
	JG(LabelRef("rest"))
	step(func(from Mem, to reg.VecVirtual) { VMOVDQU32(from, to) })
	if cols > 1 {
		for _, w := range l.w {
			PREFETCHT0(Mem{Base: w, Index: ahead, Scale: 1})
		}
		ADDQ(Imm(64), ahead)
	}
	ADDQ(Imm(64), at)
	JMP(LabelRef("vectors"))
	Label("rest")
	left := GP64()
	MOVQ(l.k, left)
	SUBQ(at, left)
	JZ(LabelRef("done"))
	ones := GP64()
	MOVQ(I64(-1), ones)
	shift := GP64()
	MOVQ(U32(64), shift)
	SUBQ(left, shift)
	SHRXQ(shift, ones, ones)
	mask := K()
	KMOVQ(ones, mask)
	step(func(from Mem, to reg.VecVirtual) { VMOVDQU8_Z(from, mask, to) })
	Label("done")
	for i, row := range l.sums {
		for j, s := range row {
			half := YMM()
			VEXTRACTI64X4(Imm(1), s, half)
			VPADDD(half, s.AsY(), half)
			x := XMM()
			VEXTRACTF32X4(Imm(1), half, x)
			VPADDD(x, half.AsX(), x)
			joined(x)
			VMOVD(x, Mem{Base: l.result, Disp: 4 * (i*cols + j)})
		}
	}
	VZEROUPPER()
	RET()
}

// joined adds the four numbers of x to the first.
func joined(x reg.VecVirtual) {
	y := XMM()
	VPSHUFD(Imm(0x4e), x, y)
	VPADDD(y, x, x)
	VPSHUFD(Imm(0xb1), x, y)
	VPADDD(y, x, x)
}

// widenedBlock is for whole vectors of sixteen.
func widenedBlock(rows, cols int) {
	l := beginInt8(fmt.Sprintf("int8Block%dx%dAVX2", rows, cols), rows, cols, func() reg.VecVirtual { return YMM() },
		fmt.Sprintf("	for i := range %d {", rows), fmt.Sprintf("		for j := range %d {", cols),
		fmt.Sprintf("			for at := range k &^ 15 { sums[i*%d+j] += q[i*k+at] * w[j*k+at] }", cols), "		}", "	}")
	at, limit := GP64(), GP64()
	XORQ(at, at)
	MOVQ(l.k, limit)
	SUBQ(Imm(16), limit)
	Label("vectors")
	CMPQ(at, limit)
	JG(LabelRef("done"))
	var q []reg.VecVirtual
	for i := range rows {
		r := YMM()
		VPMOVSXBW(Mem{Base: l.q[i], Index: at, Scale: 1}, r)
		q = append(q, r)
	}
	for j := range cols {
		w := YMM()
		VPMOVSXBW(Mem{Base: l.w[j], Index: at, Scale: 1}, w)
		for i := range rows {
			product := YMM()
			VPMADDWD(q[i], w, product)
			VPADDD(product, l.sums[i][j], l.sums[i][j])
		}
	}
	ADDQ(Imm(16), at)
	JMP(LabelRef("vectors"))
	Label("done")
	for i, row := range l.sums {
		for j, s := range row {
			x := XMM()
			VEXTRACTI128(Imm(1), s, x)
			VPADDD(x, s.AsX(), x)
			joined(x)
			VMOVD(x, Mem{Base: l.result, Disp: 4 * (i*cols + j)})
		}
	}
	VZEROUPPER()
	RET()
}
