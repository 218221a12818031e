package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose8 emits the transposition of up to eight rows into an interleaved panel, in
// squares of eight by eight: halves of two rows are joined while loading, so that only
// shuffles within 128 bits remain.
func transpose8() {
	TEXT("transpose8AVX2", NOSPLIT, "func(dst *float32, step int, src *float32, stride, rows, n int)")
	Doc("transpose8AVX2 writes rows 0 to rows-1 (1 to 8) of src side by side; what it writes for the rows up to 8 is "+
		"undefined:",
		"",
		"	for p := range n {",
		"		for r := range rows {",
		"			dst[p*step+r] = src[r*stride+p]",
		"		}",
		"	}")
	Pragma("noescape")
	dst, step := Load(Param("dst"), GP64()), Load(Param("step"), GP64())
	stride, rows, n := Load(Param("stride"), GP64()), Load(Param("rows"), GP64()), Load(Param("n"), GP64())
	SHLQ(Imm(2), step)
	SHLQ(Imm(2), stride)
	var row [8]reg.GPVirtual
	row[0] = Load(Param("src"), GP64()).(reg.GPVirtual)
	for r := 1; r < 8; r++ { // rows that do not exist are read from the last one that does
		row[r] = GP64()
		LEAQ(Mem{Base: row[r-1], Index: stride, Scale: 1}, row[r])
		CMPQ(rows, Imm(uint64(r)))
		CMOVQLE(row[r-1], row[r])
	}

	// The next eight rows are too far apart to be guessed, but would drive these out if all shared one set of the
	// first-level cache; see block.below. They go to the second level: the few places in which the first waits for
	// lines are for what is read now.
	crowded := GP64()
	XORQ(crowded, crowded)
	TESTQ(U32(4095), stride)
	CMOVQEQ(crowded, stride)

	Label("squares")
	CMPQ(n, Imm(8))
	JL(LabelRef("columns"))
	for r := range row {
		PREFETCHT1(Mem{Base: row[r], Index: stride, Scale: 8})
	}
	square(row, dst, step)
	for r := range row {
		ADDQ(Imm(32), row[r])
	}
	SUBQ(Imm(8), n)
	JMP(LabelRef("squares"))

	Label("columns")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	for r := range row {
		x := XMM()
		VMOVSS(Mem{Base: row[r]}, x)
		VMOVSS(x, Mem{Base: dst, Disp: 4 * r})
		ADDQ(Imm(4), row[r])
	}
	ADDQ(step, dst)
	DECQ(n)
	JMP(LabelRef("columns"))
	Label("done")
	VZEROUPPER()
	RET()
}

// square transposes eight elements of eight rows and moves dst on by eight steps.
func square(row [8]reg.GPVirtual, dst, step reg.Register) {
	// The halves share these registers: avo takes a load of 128 bits for one that keeps what
	// was above, so each would be in use from the start, and there are sixteen with AVX2.
	pair := [4]reg.VecVirtual{YMM(), YMM(), YMM(), YMM()} // rows r and r+4
	var col [8]reg.VecVirtual
	for half := range 2 { // columns 0 to 3, 4 to 7
		for r := range pair {
			VMOVUPS(Mem{Base: row[r], Disp: 16 * half}, pair[r].AsX())
			VINSERTF128(Imm(1), Mem{Base: row[r+4], Disp: 16 * half}, pair[r], pair[r])
		}
		lo01, hi01, lo23, hi23 := YMM(), YMM(), YMM(), YMM()
		VUNPCKLPS(pair[1], pair[0], lo01)
		VUNPCKHPS(pair[1], pair[0], hi01)
		VUNPCKLPS(pair[3], pair[2], lo23)
		VUNPCKHPS(pair[3], pair[2], hi23)
		for q := range 4 {
			col[4*half+q] = YMM()
		}
		VUNPCKLPD(lo23, lo01, col[4*half])
		VUNPCKHPD(lo23, lo01, col[4*half+1])
		VUNPCKLPD(hi23, hi01, col[4*half+2])
		VUNPCKHPD(hi23, hi01, col[4*half+3])
	}
	for _, c := range col {
		VMOVUPS(c, Mem{Base: dst})
		ADDQ(step, dst)
	}
}

// copyPanels emits the packing of rows that already lie as the panels want them. It goes
// along the rows, so that each is read once from end to end.
func copyPanels() {
	TEXT("copyPanelsAVX2", NOSPLIT, "func(dst *float32, step, skip int, src *float32, stride, pitch, width, panels, n int)")
	Doc("copyPanelsAVX2 copies n rows, each to several panels, in pieces of 8, 16, 32, 48 or 64 elements:",
		"",
		"	for p := range n {",
		"		for q := range panels {",
		"			for i := range width {",
		"				dst[q*skip+p*step+i] = src[p*stride+q*pitch+i]",
		"			}",
		"		}",
		"	}")
	Pragma("noescape")
	dst, step, skip := Load(Param("dst"), GP64()), Load(Param("step"), GP64()), Load(Param("skip"), GP64())
	src, stride, pitch := Load(Param("src"), GP64()), Load(Param("stride"), GP64()), Load(Param("pitch"), GP64())
	width, panels, n := Load(Param("width"), GP64()), Load(Param("panels"), GP64()), Load(Param("n"), GP64())
	for _, r := range []reg.Register{step, skip, stride, pitch} {
		SHLQ(Imm(2), r)
	}
	CMPQ(width, Imm(16))
	JL(LabelRef("row1"))
	JE(LabelRef("row2"))
	CMPQ(width, Imm(48))
	JL(LabelRef("row4"))
	JE(LabelRef("row6"))
	for _, vectors := range []int{8, 6, 4, 2, 1} {
		copyRow(vectors, dst, step, skip, src, stride, pitch, panels, n)
	}
}

func copyRow(vectors int, dst, step, skip, src, stride, pitch, panels, n reg.Register) {
	row, panel := fmt.Sprintf("row%d", vectors), fmt.Sprintf("panel%d", vectors)
	to, from, left := GP64(), GP64(), GP64()
	Label(row)
	MOVQ(dst, to)
	MOVQ(src, from)
	MOVQ(panels, left)
	Label(panel)
	PREFETCHT1(Mem{Base: from, Index: stride, Scale: 8}) // as in transpose8
	for line := 64; line < 32*vectors; line += 64 {
		PREFETCHT1(Mem{Base: from, Index: stride, Scale: 8, Disp: line})
	}
	var q [8]reg.VecVirtual
	for i := range vectors {
		q[i] = YMM()
		VMOVUPS(Mem{Base: from, Disp: 32 * i}, q[i])
	}
	for i := range vectors {
		VMOVUPS(q[i], Mem{Base: to, Disp: 32 * i})
	}
	ADDQ(pitch, from)
	ADDQ(skip, to)
	DECQ(left)
	JNZ(LabelRef(panel))
	ADDQ(stride, src)
	ADDQ(step, dst)
	DECQ(n)
	JNZ(LabelRef(row))
	VZEROUPPER()
	RET()
}
