package optim

import (
	"math"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// muon is the optimizer of Jordan et al., "Muon: An optimizer for hidden layers in neural networks"
// (2024): of a matrix it makes the momentum nearly orthogonal, in float32, and steps that way.
//
//	m  = momentum*m + (1-momentum)*g
//	u  = momentum*m + (1-momentum)*g
//	O  = orthogonalised u, times sqrt(max(1, rows/cols))
//	p -= lr*decay*p + lr*O
//
// With MatchRMS, O is multiplied by 0.2*sqrt(max(rows, cols)) instead, which makes a step about as
// large as one of AdamW (Liu et al., "Muon is Scalable for LLM Training", 2025). Embeddings, the head and all that
// is no matrix are left to AdamW.
type muon struct {
	Config
	x, y, a, b []float32 // of the largest matrix so far
}

// muonSteps and the coefficients are those of the published iteration.
const (
	muonSteps           = 5
	muonA, muonB, muonC = 3.4445, -4.7750, 2.0315
	muonEps             = 1e-7
	muonLike            = 0.2
	embedName, headName = "embed", "lm_head"
	muonBuffer          = "momentum_buffer"
)

// orthogonal reports whether Muon itself changes the parameter.
func orthogonal(p *Param) bool {
	return len(p.Shape) == 2 && !strings.HasSuffix(p.Name, "bias") && // such as those of packed experts
		!strings.Contains(p.Name, embedName) && !strings.Contains(p.Name, headName)
}

func (m *muon) keeps(p *Param) []slot {
	if !orthogonal(p) {
		return adamW{m.Config}.keeps(p)
	}
	return []slot{p.float32s(muonBuffer)}
}

// scratchBytes is what the matrices take while they are made orthogonal.
func (m *muon) scratchBytes(params []Param) int64 {
	var large, square int64
	for i := range params {
		if p := &params[i]; orthogonal(p) {
			side := int64(min(p.Shape[0], p.Shape[1]))
			large, square = max(large, int64(p.elems())), max(square, side*side)
		}
	}
	return 4 * (2*large + 2*square)
}

func (m *muon) change(s *step, p *Param, state []core.Tensor) func(value []float32, lo, hi int) {
	if !orthogonal(p) {
		return adamW{m.Config}.change(s, p, state)
	}
	rows, cols := p.Shape[0], p.Shape[1]
	m.room(p.elems(), min(rows, cols))
	mean, x := state[0].Float32s(), m.x[:p.elems()]
	beta, fresh := float32(m.Momentum), float32((1-m.Momentum)*s.scale)
	simd.Parallel(len(x), grain, func(lo, hi int) {
		simd.Scale(mean[lo:hi], mean[lo:hi], beta)
		simd.Axpy(fresh, p.Grad[lo:hi], mean[lo:hi])
		simd.Scale(x[lo:hi], mean[lo:hi], beta)
		simd.Axpy(fresh, p.Grad[lo:hi], x[lo:hi])
	})
	x = m.orthogonalise(rows, cols)
	scale := math.Sqrt(max(1, float64(rows)/float64(cols)))
	if m.MatchRMS {
		scale = muonLike * math.Sqrt(float64(max(rows, cols)))
	}
	keep, by := s.keep(), float32(-s.lr*scale)
	return func(value []float32, lo, hi int) {
		simd.Scale(value, value, keep)
		simd.Axpy(by, x[lo:hi], value)
	}
}

// room makes the scratch large enough.
func (m *muon) room(n, side int) {
	if len(m.x) < n {
		m.x, m.y = make([]float32, n), make([]float32, n)
	}
	if len(m.a) < side*side {
		m.a, m.b = make([]float32, side*side), make([]float32, side*side)
	}
}

// orthogonalise iterates on m.x, of which it takes the smaller side for rows, and returns where the result is.
func (m *muon) orthogonalise(rows, cols int) []float32 {
	n, side := rows*cols, min(rows, cols)
	tall := rows > cols
	x, y, a, b := m.x[:n], m.y[:n], m.a[:side*side], m.b[:side*side]
	norm := GlobalNorm([][]float32{x})
	scaleAll(x, x, float32(1/(norm+muonEps)))
	square := simd.Matrix{Data: a, Stride: side}
	for range muonSteps {
		of := simd.Matrix{Data: x, Stride: cols}
		simd.Multiply(simd.Product{M: side, N: side, K: n / side, A: of, B: of, TransA: tall, TransB: !tall, C: a,
			StrideC: side})
		simd.Multiply(simd.Product{M: side, N: side, K: side, A: square, B: square, C: b, StrideC: side})
		simd.Parallel(len(b), grain, func(lo, hi int) {
			simd.Scale(b[lo:hi], b[lo:hi], muonC)
			simd.Axpy(muonB, a[lo:hi], b[lo:hi])
		})
		scaleAll(y, x, muonA)
		by := simd.Matrix{Data: b, Stride: side}
		next := simd.Product{M: rows, N: cols, K: side, A: by, B: of, C: y, StrideC: cols, Accumulate: true}
		if tall {
			next.A, next.B = of, by
		}
		simd.Multiply(next)
		x, y = y, x
	}
	return x
}

// scaleAll is simd.Scale with all threads.
func scaleAll(dst, x []float32, by float32) {
	simd.Parallel(len(x), grain, func(lo, hi int) { simd.Scale(dst[lo:hi], x[lo:hi], by) })
}

// sumSquares returns that of the value.
func (p *Param) sumSquares() float64 {
	if p.Half != nil {
		wide, sum := make([]float32, block), 0.0
		for part := range slices.Chunk(p.Half, block) {
			simd.BFloat16ToFloat32(wide[:len(part)], part)
			sum += simd.SumSquares(wide[:len(part)])
		}
		return sum
	}
	norm := GlobalNorm([][]float32{p.Value})
	return norm * norm
}
