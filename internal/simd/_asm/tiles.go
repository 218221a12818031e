package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	tileBytes  = 1024          // 16 rows of 64 bytes
	partBytes  = 2 * tileBytes // two tiles: 32 lanes
	tileSums   = 4096          // of the 32 by 32 sums of a block, after which the sizes of tiles lie
	linesAhead = 12            // of the next panel of a, at each step
	rowsAhead  = 2
)

// tiles is the kernel of a block of c of na by nb tiles, whose operands are sums of pa and pb
// parts in bfloat16.
type tiles struct {
	na, nb, pa, pb int
}

// Registers, all named, for nothing tells avo which of them an instruction on tiles reads.
var (
	tileA, tileB, tileC  = reg.RSI, reg.RDI, reg.RDX
	tileSteps, tileRoom  = reg.R8, reg.R9
	tileRow              = reg.R10
	tileStride, tileLeft = reg.R12, reg.R13
	tileAhead            = reg.RBX
	tileAt, tileCount    = reg.RAX, reg.RCX
	tileSum              = reg.R15
)

func emitTiles(t tiles) {
	name := fmt.Sprintf("tiles%dx%dof%dx%dAMX", t.na, t.nb, t.pa, t.pb)
	TEXT(name, NOSPLIT, "func(steps int, a, b *byte, panel int, c *float32, stride, rows, cols int, add bool, "+
		"room, ahead *byte)")
	Doc(name+" computes rows of c, with all panels of b that cols columns need. It asks for what",
		"lies ahead to be brought to the second-level cache.")
	Pragma("noescape")
	Load(Param("room"), tileRoom)
	Load(Param("a"), tileA)
	Load(Param("b"), tileB)
	Load(Param("c"), tileC)
	Load(Param("cols"), tileLeft)
	Load(Param("ahead"), tileAhead)
	Load(Param("stride"), tileStride)
	SHLQ(Imm(2), tileStride)
	MOVQ(U32(64), tileRow)
	LEAQ(Mem{Base: tileRoom, Disp: tileSums}, tileAt)
	tileConfig(reg.RAX).emit()

	Label("panel")
	for i := range t.na * t.nb {
		tileZero(t.sum(i/t.nb, i%t.nb)).emit()
	}
	Load(Param("steps"), tileSteps)
	MOVQ(tileA, reg.R14)
	MOVQ(tileB, reg.R15)
	MOVQ(tileC, tileAt)
	Label("step")
	t.step()
	for range rowsAhead { // of c, which is needed after the loop
		PREFETCHT0(Mem{Base: tileAt})
		if t.nb > 1 {
			PREFETCHT0(Mem{Base: tileAt, Disp: 64})
		}
		ADDQ(tileStride, tileAt)
	}
	for i := range linesAhead {
		PREFETCHT1(Mem{Base: tileAhead, Disp: 64 * i})
	}
	ADDQ(U32(64*linesAhead), tileAhead)
	ADDQ(U32(uint32(t.pa*partBytes)), reg.R14)
	ADDQ(U32(uint32(t.pb*partBytes)), reg.R15)
	DECQ(tileSteps)
	JNZ(LabelRef("step"))
	t.store()
	Load(Param("panel"), tileAt)
	ADDQ(tileAt, tileB)
	ADDQ(Imm(uint64(64*t.nb)), tileC)
	SUBQ(Imm(uint64(16*t.nb)), tileLeft)
	JG(LabelRef("panel"))
	tileRelease().emit()
	VZEROUPPER()
	RET()
}

// sum is the tile of the sums of row i and column j of tiles.
func (t tiles) sum(i, j int) tmm { return tmm(2*i + j) }

// step adds the products of 32 elements of the inner dimension: of the parts of both operands,
// all but those whose product is below what a float32 keeps. The order is one in which most
// tiles serve twice once they are loaded.
func (t tiles) step() {
	inA, inB := -1, -1
	ahead := t.nearAhead()
	for _, parts := range [][2]int{{0, 0}, {0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}} {
		a, b := parts[0], parts[1]
		if a >= t.pa || b >= t.pb {
			continue
		}
		for i := range t.na {
			if inA != a {
				tileLoad(tmm(4+i), reg.R14, reg.R10, a*partBytes+i*tileBytes).emit()
			}
		}
		for j := range t.nb {
			if inB != b {
				tileLoad(tmm(6+j), reg.R15, reg.R10, b*partBytes+j*tileBytes).emit()
			}
		}
		inA, inB = a, b
		for j := range t.nb {
			for i := range t.na {
				tileProduct(t.sum(i, j), tmm(4+i), tmm(6+j)).emit()
				ahead.some()
			}
		}
	}
}

// nearAhead asks for lines of b at the next step to be brought to the first-level cache: tiles are
// loaded from the second level at no more than the rate at which they are multiplied.
type nearAhead struct{ lines []Mem }

func (t tiles) nearAhead() *nearAhead {
	var n nearAhead
	for part := range t.pb {
		for line := range t.nb * tileBytes / 64 {
			n.lines = append(n.lines, Mem{Base: reg.R15, Disp: (t.pb+part)*partBytes + 64*line})
		}
	}
	return &n
}

// some asks for as many as pass while a tile is multiplied.
func (n *nearAhead) some() {
	const atOnce = 8
	for _, line := range n.lines[:min(len(n.lines), atOnce)] {
		PREFETCHT0(line)
	}
	n.lines = n.lines[min(len(n.lines), atOnce):]
}

// store writes the sums to c, by way of room, or adds them.
func (t tiles) store() {
	MOVQ(U32(128), tileAt)
	for i := range t.na {
		for j := range t.nb {
			tileStore(t.sum(i, j), reg.R9, reg.RAX, i*16*128+j*64).emit()
		}
	}
	// The masks of the columns that there are.
	mask := []reg.OpmaskPhysical{reg.K1, reg.K2}[:t.nb]
	for j, k := range mask {
		MOVQ(tileLeft, tileCount)
		if j > 0 {
			SUBQ(Imm(16), tileCount)
		}
		XORL(tileSum.As32(), tileSum.As32())
		CMPQ(tileCount, Imm(0))
		CMOVQLT(tileSum, tileCount)
		MOVQ(U32(16), tileSum)
		CMPQ(tileCount, tileSum)
		CMOVQGT(tileSum, tileCount)
		MOVQ(U32(1), tileSum)
		SHLXQ(tileCount, tileSum, tileSum)
		DECQ(tileSum)
		KMOVW(tileSum.As32(), k)
	}
	z := []reg.VecPhysical{reg.Z0, reg.Z1}
	Load(Param("rows"), tileCount)
	MOVQ(tileC, tileAt)
	MOVQ(tileRoom, tileSum)
	Load(Param("add"), reg.R14B)
	TESTB(reg.R14B, reg.R14B)
	JZ(LabelRef("write"))
	for _, add := range []bool{true, false} {
		loop := "write"
		if add {
			loop = "add"
		}
		Label(loop)
		for j, k := range mask {
			VMOVUPS(Mem{Base: tileSum, Disp: 64 * j}, z[j])
			if add {
				VADDPS(Mem{Base: tileAt, Disp: 64 * j}, z[j], k, z[j])
			}
			VMOVUPS(z[j], k, Mem{Base: tileAt, Disp: 64 * j})
		}
		ADDQ(tileStride, tileAt)
		ADDQ(Imm(128), tileSum)
		DECQ(tileCount)
		JNZ(LabelRef(loop))
		if add {
			JMP(LabelRef("stored"))
		}
	}
	Label("stored")
}

// emitAllTiles emits the kernels of whole blocks and of those at the edges of c, for operands
// of one part and of three.
func emitAllTiles() {
	for _, parts := range [][2]int{{3, 3}, {3, 1}, {1, 3}, {1, 1}} {
		for na := 2; na > 0; na-- {
			for nb := 2; nb > 0; nb-- {
				emitTiles(tiles{na, nb, parts[0], parts[1]})
			}
		}
	}
}
