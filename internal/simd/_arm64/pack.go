package main

import "fmt"

// square is how many rows and columns are transposed at once: as many as a vector has lanes.
const square = lanes

// transpose emits the transposition of up to eight rows into an interleaved panel.
func transpose() *function {
	f := newFunction("transpose8", "func(dst *float32, step int, src *float32, stride, rows, n int)",
		"writes rows 0 to rows-1 (1 to 8) of src side by side; what it writes for the rows up to the next 4 or 8 is "+
			"undefined:",
		"for p := range n {",
		"	for r := range rows {",
		"		dst[p*step+r] = src[r*stride+p]",
		"	}",
		"}")
	dst := []string{f.param("dst")}
	step := f.bytes("step")
	for c := range square - 1 {
		dst = append(dst, f.int())
		f.ins("ADD", step, dst[c], dst[c+1])
	}
	row := []string{f.param("src")}
	stride, rows, n := f.bytes("stride"), f.param("rows"), f.param("n")
	for r := range 7 { // rows that do not exist are read from the last one that does
		row = append(row, f.int())
		f.ins("ADD", stride, row[r], row[r+1])
		f.ins("CMP", fmt.Sprintf("$%d", r+1), rows)
		f.ins("CSEL", "GT", row[r+1], row[r], row[r+1])
	}
	f.ins("CMP", fmt.Sprintf("$%d", square), rows)
	f.ins("BLE", "few")
	f.transposeRows("many", row, dst, step, n)
	f.label("few")
	f.transposeRows("few", row[:square], dst, step, n)
	return f
}

// transposeRows emits the transposition of these rows in squares, and the return. dst is
// where the next columns go, one for each of a square.
func (f *function) transposeRows(name string, row, dst []string, step, n string) {
	f.ins("SUBS", fmt.Sprintf("$%d", square), n)
	f.ins("BLT", name+"rest")
	f.label(name + "squares")
	mark := f.vectors
	for at := 0; at < len(row); at += square {
		for c, v := range f.transposeSquare(row[at : at+square]) {
			f.ins("FMOVQ", v.part(), mem(4*at, dst[c]))
		}
	}
	f.release(mark)
	for _, d := range dst {
		f.ins("ADD", step+"<<2", d)
	}
	f.ins("SUBS", fmt.Sprintf("$%d", square), n)
	f.ins("BGE", name+"squares")
	f.label(name + "rest")
	f.ins("ADDS", fmt.Sprintf("$%d", square), n)
	f.ins("BEQ", name+"done")
	f.label(name + "columns")
	for r, from := range row {
		f.ins("FMOVS.P", mem(4, from), "F0")
		f.ins("FMOVS", "F0", mem(4*r, dst[0]))
	}
	f.ins("ADD", step, dst[0])
	f.ins("SUBS", "$1", n)
	f.ins("BNE", name+"columns")
	f.label(name + "done")
	f.ret()
}

// transposeSquare loads the next elements of four rows and returns the columns.
func (f *function) transposeSquare(row []string) (cols [square]vec) {
	r := f.vecs(square)
	for i, from := range row {
		f.ins("VLD1.P", mem(4*square, from), list(r[i]))
	}
	even, odd := f.vecs(2), f.vecs(2) // columns of rows 0 and 1, of rows 2 and 3
	for i := range 2 {
		f.do(trn1, even[i], r[2*i], r[2*i+1])
		f.do(trn2, odd[i], r[2*i], r[2*i+1])
	}
	cols = [square]vec(r)
	f.do(zip1, cols[0], even[0], even[1])
	f.do(zip1, cols[1], odd[0], odd[1])
	f.do(zip2, cols[2], even[0], even[1])
	f.do(zip2, cols[3], odd[0], odd[1])
	return cols
}

// copyPanels emits the packing of rows that already lie as the panels want them. It goes
// along the rows, so that each is read once from end to end.
func copyPanels() *function {
	f := newFunction("copyPanels", "func(dst *float32, step, skip int, src *float32, stride, pitch, width, panels, n int)",
		"copies n rows, each to several panels, in pieces of 4, 8 or 12 elements:",
		"for p := range n {",
		"	for q := range panels {",
		"		for i := range width {",
		"			dst[q*skip+p*step+i] = src[p*stride+q*pitch+i]",
		"		}",
		"	}",
		"}")
	dst, step, skip := f.param("dst"), f.bytes("step"), f.bytes("skip")
	src, stride, pitch := f.param("src"), f.bytes("stride"), f.bytes("pitch")
	width, panels, n := f.param("width"), f.param("panels"), f.param("n")
	to, from, left := f.int(), f.int(), f.int()
	f.ins("CMP", "$8", width)
	f.ins("BLT", "row1")
	f.ins("BEQ", "row2")
	v := f.vecs(3)
	for vectors := 3; vectors > 0; vectors-- {
		row, panel := fmt.Sprintf("row%d", vectors), fmt.Sprintf("panel%d", vectors)
		f.label(row)
		f.ins("MOVD", dst, to)
		f.ins("MOVD", src, from)
		f.ins("MOVD", panels, left)
		f.label(panel)
		f.ins("VLD1", mem(0, from), list(v[:vectors]...))
		f.ins("VST1", list(v[:vectors]...), mem(0, to))
		f.ins("ADD", pitch, from)
		f.ins("ADD", skip, to)
		f.ins("SUBS", "$1", left)
		f.ins("BNE", panel)
		f.ins("ADD", stride, src)
		f.ins("ADD", step, dst)
		f.ins("SUBS", "$1", n)
		f.ins("BNE", row)
		f.ret()
	}
	return f
}
