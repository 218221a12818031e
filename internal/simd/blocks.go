package simd

// multiply sets rows rows and cols columns of c, or adds to them, the products of so many rows of a left operand, at a, and
// the columns of b.
func (kernel *gemmKernel) multiply(rows, k int, l left, a *float32, b right, cols int, c []float32, stride int, add bool) {
	j, at := 0, 0
	if panels := cols / kernel.cols; panels > 0 && kernel.several != nil {
		kernel.several(rows, panels, k, a, l.lane, l.step, &b.data[b.from*kernel.cols], b.pitch, &c[0], stride, add)
		j, at = panels*kernel.cols, panels*b.pitch
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

// edge computes a block of which only the first columns belong to c.
func (kernel *gemmKernel) edge(rows, cols, k int, l left, a, b *float32, c []float32, stride int, add bool) {
	room := scratches.get()
	defer scratches.put(room)
	kernel.loose(rows, k, a, l.lane, l.step, b, &room.block[0], kernel.cols, false)
	store(c, stride, room.block[:], kernel.cols, rows, cols, add)
}

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
