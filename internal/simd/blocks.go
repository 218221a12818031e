package simd

// multiply sets c [rows,cols], or adds to it, the product of rows of a left operand, which begin at a and lie as l says,
// and the first columns of b.
func (kernel *gemmKernel) multiply(rows, k int, l left, a *float32, b right, cols int, c []float32, stride int, add bool) {
	j, at := 0, 0
	if wide := kernel.full(cols); wide > 0 {
		kernel.several(rows, wide, k, a, l.lane, l.step, &b.data[b.from*kernel.cols], b.pitch, &c[0], stride, add)
		j, at = wide, wide/kernel.cols*b.pitch
	}
	for ; j < cols; j, at = j+kernel.cols, at+b.pitch {
		width := kernel.width(min(b.cols-j, kernel.cols))
		panel, n := &b.data[at+b.from*width], min(cols-j, width)
		switch {
		case kernel.part != nil:
			kernel.part(rows, n, k, a, l.lane, l.step, panel, width, &c[j], stride, add)
		case n < kernel.cols:
			kernel.edge(rows, n, k, l, a, panel, c[j:], stride, add)
		case l.panel > 0:
			kernel.block(rows, k, a, panel, &c[j], stride, add)
		default:
			kernel.loose(rows, k, a, l.lane, l.step, panel, &c[j], stride, add)
		}
	}
}

// full returns how many of so many columns are of panels that several takes: all, unless fewer vectors of the last panel
// are needed, which may have no more.
func (kernel *gemmKernel) full(cols int) int {
	if kernel.several == nil {
		return 0
	}
	if rest := cols % kernel.cols; rest <= kernel.cols-kernel.lanes {
		return cols - rest
	}
	return cols
}

// edge computes a block of which only the first columns belong to c.
func (kernel *gemmKernel) edge(rows, cols, k int, l left, a, b *float32, c []float32, stride int, add bool) {
	room := edges.get()
	defer edges.put(room)
	kernel.loose(rows, k, a, l.lane, l.step, b, &room[0], kernel.cols, false)
	store(c, stride, room[:], kernel.cols, rows, cols, add)
}

// edges have room for a block of any kernel without part.
var edges = stock[[8 * 12]float32]{make: func() *[8 * 12]float32 { return new([8 * 12]float32) }}

// store writes the first columns of a block to c, or adds them.
func store(c []float32, stride int, block []float32, width, rows, cols int, add bool) {
	for r := range rows {
		out, sums := c[r*stride:][:cols], block[r*width:][:cols]
		if !add {
			copy(out, sums)
			continue
		}
		for q, v := range sums {
			out[q] += v
		}
	}
}
