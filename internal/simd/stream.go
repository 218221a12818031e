package simd

import "unsafe"

// Stream says whether the functions that are its methods write past the caches. Results
// that no cache holds until they are read go to memory anyway, and an ordinary store
// reads there first what it overwrites. Those of a function called by Parallel are
// visible to everybody when Parallel returns; who calls one otherwise must not stream.
type Stream bool

// streamFrom is what an operation reads and writes, in bytes, from which it pays to
// stream. It is twice the last-level cache of the machine that it was measured on: with
// 3/4 of it, an operation and the next one, which reads the results, took up to a third
// longer; from here on they mostly take 15 to 30% less time.
const streamFrom = 64 << 20

// StreamFor decides for an operation that reads and writes so many bytes.
func StreamFor(bytes int64) Stream { return bytes >= streamFrom }

// ScaleMul sets dst[i] = scale * x[i] * w[i]: a row of an RMSNorm, with scale the reciprocal
// of the root. dst may be x. Streaming, it reads ahead into the next row of the matrix.
func (s Stream) ScaleMul(dst, x, w []float32, scale float32) {
	same(len(dst), len(x), len(w))
	n := s.head(dst)
	active.scaleMul(dst[:n], x[:n], w[:n], scale)
	active.stream.scaleMul(dst[n:], x[n:], w[n:], scale)
}

// NormGrad is the backward pass of a row of an RMSNorm: with n = rstd*x[i], it adds
// dy[i]*n to dw[i], which is not streamed, and sets dx[i] = rstd * (dy[i]*w[i] - n*mean),
// where mean is that of dy*w*n. dx may be dy or x.
func (s Stream) NormGrad(dx, dw, dy, x, w []float32, rstd, mean float32) {
	same(len(dx), len(dw), len(dy), len(x), len(w))
	n := s.head(dx)
	active.normGrad(dx[:n], dw[:n], dy[:n], x[:n], w[:n], rstd, mean)
	active.stream.normGrad(dx[n:], dw[n:], dy[n:], x[n:], w[n:], rstd, mean)
}

// RotateHalves rotates the pairs (a[i], b[i]) by the angles of cos and sin:
//
//	lo[i], hi[i] = a[i]*cos[i] - b[i]*sin[i], b[i]*cos[i] + a[i]*sin[i]
//
// lo may be a, and hi b.
func (s Stream) RotateHalves(lo, hi, a, b, cos, sin []float32) {
	same(len(lo), len(hi), len(a), len(b), len(cos), len(sin))
	n := s.head(lo, hi)
	active.rotateHalves(lo[:n], hi[:n], a[:n], b[:n], cos[:n], sin[:n])
	active.stream.rotateHalves(lo[n:], hi[n:], a[n:], b[n:], cos[n:], sin[n:])
}

// RotateHeads rotates each head of a row, of width elements, by the angles of cos and sin:
// the first half of its first 2*len(cos) elements with the second as RotateHalves does.
// dst may be x.
func (s Stream) RotateHeads(dst, x, cos, sin []float32, width int) {
	same(len(dst), len(x))
	same(len(cos), len(sin))
	f, n := &active.results, len(cos)
	if s {
		f = &active.stream
	}
	if f.rotateHeads != nil && n > 0 && n%16 == 0 && (!s || width%16 == 0 && s.head(dst) == 0) {
		f.rotateHeads(cos, sin, dst, x, width)
		return
	}
	for h := 0; h+width <= len(dst); h += width {
		dst, x := dst[h:h+2*n], x[h:h+2*n]
		s.RotateHalves(dst[:n], dst[n:], x[:n], x[n:], cos, sin)
	}
}

// RotatePairs rotates the pairs (x[2*i], x[2*i+1]) by the angles of cos and sin, half as
// long, as RotateHalves does. dst may be x.
func (s Stream) RotatePairs(dst, x, cos, sin []float32) {
	same(len(dst), len(x), 2*len(cos), 2*len(sin))
	n := s.head(dst) / 2
	if s.head(dst[2*n:]) != 0 { // a pair crosses every boundary
		n = len(cos)
	}
	active.rotatePairs(cos[:n], sin[:n], dst[:2*n], x[:2*n])
	active.stream.rotatePairs(cos[n:], sin[n:], dst[2*n:], x[2*n:])
}

// SwiGLU sets dst[i] = gate[i] * sigmoid(gate[i]) * up[i]. dst may be gate or up.
func (s Stream) SwiGLU(dst, gate, up []float32) {
	same(len(dst), len(gate), len(up))
	n := s.head(dst)
	active.swiglu(dst[:n], gate[:n], up[:n])
	active.stream.swiglu(dst[n:], gate[n:], up[n:])
}

// SwiGLUGrad sets, with g = gate[i] and s = sigmoid(g),
//
//	dup[i] = dy[i] * g*s
//	dgate[i] = dy[i] * up[i] * (s + g*s*(1-s))
//
// dgate and dup may be any of the others, but not the same.
func (s Stream) SwiGLUGrad(dgate, dup, dy, gate, up []float32) {
	same(len(dgate), len(dup), len(dy), len(gate), len(up))
	n := s.head(dgate, dup)
	active.swigluGrad(dgate[:n], dup[:n], dy[:n], gate[:n], up[:n])
	active.stream.swigluGrad(dgate[n:], dup[n:], dy[n:], gate[n:], up[n:])
}

// head returns how many of the first elements are not to be streamed: those before the
// first cache line of the results, which are of one length, or all if they do not share
// their place in it.
func (s Stream) head(results ...[]float32) int {
	all := len(results[0])
	if !s || all == 0 {
		return all
	}
	const line = 64
	first := uintptr(unsafe.Pointer(&results[0][0]))
	for _, r := range results[1:] {
		if (uintptr(unsafe.Pointer(&r[0]))-first)%line != 0 {
			return all
		}
	}
	return min(all, int(-first%line/4))
}

// Prefetch asks for x to be brought into the caches, while there is other work to do. It
// changes nothing.
func Prefetch[T any](x []T) {
	if active.prefetch != nil && len(x) > 0 {
		active.prefetch(bytesAt(x, 0), len(x)*int(unsafe.Sizeof(x[0])))
	}
}
