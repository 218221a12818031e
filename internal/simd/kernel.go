package simd

import "unsafe"

// The register block of the generic kernel. Nine sums, three elements of b, one of a and
// one product just fit the sixteen vector registers of amd64, of which Go keeps one; a
// block of four by four spills and runs at three quarters of the speed.
const genericBlock = 3

var genericGemm = gemmKernel{rows: genericBlock, cols: genericBlock, step: genericBlock, unit: 1,
	block: blockGeneric, loose: looseGeneric, transpose: transposeGeneric, copyPanels: copyPanelsGeneric}

// blockGeneric adds up the products of two panels over k in order:
// c[i][j] = a[0][i]*b[0][j] + a[1][i]*b[1][j] + ...
func blockGeneric(rows, k int, a, b, c *float32, stride int, add bool) {
	as := unsafe.Slice((*[genericBlock]float32)(unsafe.Pointer(a)), k)
	bs := unsafe.Slice((*[genericBlock]float32)(unsafe.Pointer(b)), k)
	sum := sumGeneric(as, bs)
	out := unsafe.Slice(c, (rows-1)*stride+genericBlock)
	for i := range rows {
		for j, v := range sum[i] {
			if add {
				v = out[i*stride+j] + v
			}
			out[i*stride+j] = v
		}
	}
}

func sumGeneric(a, b [][genericBlock]float32) [genericBlock][genericBlock]float32 {
	b = b[:len(a)] // one bounds check here, none in the loop
	var s00, s01, s02, s10, s11, s12, s20, s21, s22 float32
	for p := range a {
		x, y := &a[p], &b[p]
		b0, b1, b2 := y[0], y[1], y[2]
		v := x[0]
		s00 += v * b0
		s01 += v * b1
		s02 += v * b2
		v = x[1]
		s10 += v * b0
		s11 += v * b1
		s12 += v * b2
		v = x[2]
		s20 += v * b0
		s21 += v * b1
		s22 += v * b2
	}
	return [genericBlock][genericBlock]float32{{s00, s01, s02}, {s10, s11, s12}, {s20, s21, s22}}
}

// looseGeneric is blockGeneric for a left operand of which only the given rows are there.
func looseGeneric(rows, k int, a *float32, lane, step int, b, c *float32, stride int, add bool) {
	in := unsafe.Slice(a, (rows-1)*lane+(k-1)*step+1)
	bs := unsafe.Slice((*[genericBlock]float32)(unsafe.Pointer(b)), k)
	out := unsafe.Slice(c, (rows-1)*stride+genericBlock)
	for i := range rows {
		var s0, s1, s2 float32
		for p, y := range bs {
			v := in[i*lane+p*step]
			s0 += v * y[0]
			s1 += v * y[1]
			s2 += v * y[2]
		}
		for j, v := range [...]float32{s0, s1, s2} {
			if add {
				v = out[i*stride+j] + v
			}
			out[i*stride+j] = v
		}
	}
}

func transposeGeneric(dst *float32, step int, src *float32, stride, rows, n int) {
	out, in := unsafe.Slice(dst, (n-1)*step+rows), unsafe.Slice(src, (rows-1)*stride+n)
	for r := range rows {
		for p, v := range in[r*stride:][:n] {
			out[p*step+r] = v
		}
	}
}

func copyPanelsGeneric(dst *float32, step, skip int, src *float32, stride, pitch, width, panels, n int) {
	out := unsafe.Slice(dst, (panels-1)*skip+(n-1)*step+width)
	in := unsafe.Slice(src, (n-1)*stride+(panels-1)*pitch+width)
	for p := range n {
		for q := range panels {
			copy(out[q*skip+p*step:][:width], in[p*stride+q*pitch:])
		}
	}
}
