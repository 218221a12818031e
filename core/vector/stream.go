package vector

import "github.com/seed98097648/tune/internal/simd"

// Stream has the loops whose results are as large as a layer's, and says whether they are
// written past the caches. Results that no cache can hold until they are read go to
// memory anyway, and an ordinary store reads there first what it overwrites: for those,
// streaming takes 15 to 30% less time. For smaller ones it takes more. The bits are the
// same either way.
//
// What is streamed within Parallel is visible to everybody when Parallel returns. Who
// calls a method anywhere else must not stream: Stream(false) never does.
type Stream bool

// StreamFor decides for an operation that reads and writes so many bytes, as Work of its
// call counts them: it streams from 64 MiB on.
func StreamFor(bytes int64) Stream { return Stream(simd.StreamFor(bytes)) }

// ScaleMul sets dst[i] = s * x[i] * w[i]: a row of a norm, with s the reciprocal of the
// root. dst may be x.
func (m Stream) ScaleMul(dst, x, w []float32, s float32) {
	simd.Stream(m).ScaleMul(dst, x, w, s)
}

// NormGrad is the backward pass of a row of a root mean square norm: with n = rstd*x[i], it
// adds dy[i]*n to dw[i], which is never streamed, and sets
//
//	dx[i] = rstd * (dy[i]*w[i] - n*mean)
//
// where mean is that of dy*w*n. dx may be dy or x.
func (m Stream) NormGrad(dx, dw, dy, x, w []float32, rstd, mean float32) {
	simd.Stream(m).NormGrad(dx, dw, dy, x, w, rstd, mean)
}

// RotateHeads rotates each head of a row, of width elements, by the angles of cos and sin:
// element i of a head with element i+len(cos), for the first 2*len(cos) elements. Others
// are left alone.
//
//	dst[i]          = x[i]*cos[i] - x[i+len(cos)]*sin[i]
//	dst[i+len(cos)] = x[i+len(cos)]*cos[i] + x[i]*sin[i]
//
// dst may be x.
func (m Stream) RotateHeads(dst, x, cos, sin []float32, width int) {
	simd.Stream(m).RotateHeads(dst, x, cos, sin, width)
}

// RotatePairs rotates element 2*i of x with element 2*i+1, by the angles of cos and sin,
// which are half as long as x, as RotateHeads does. dst may be x.
func (m Stream) RotatePairs(dst, x, cos, sin []float32) {
	simd.Stream(m).RotatePairs(dst, x, cos, sin)
}

// SwiGLU sets dst[i] = gate[i] * sigmoid(gate[i]) * up[i]. dst may be gate or up.
func (m Stream) SwiGLU(dst, gate, up []float32) {
	simd.Stream(m).SwiGLU(dst, gate, up)
}

// SwiGLUGrad sets, with g = gate[i] and s = sigmoid(g),
//
//	dup[i]   = dy[i] * g*s
//	dgate[i] = dy[i] * up[i] * (s + g*s*(1-s))
//
// dgate and dup may be any of the others, but not the same.
func (m Stream) SwiGLUGrad(dgate, dup, dy, gate, up []float32) {
	simd.Stream(m).SwiGLUGrad(dgate, dup, dy, gate, up)
}
