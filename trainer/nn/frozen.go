package nn

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Freeze makes the parameters that are added from now on frozen, but for those that storage returns
// core.InvalidDType for. They are stored in the dtype that it returns: float32, bfloat16, float16, or int8 or NF4 for a matrix
// that is only multiplied by. The parameter that it is given has no memory yet.
func (b *Builder) Freeze(storage func(p *Param) core.DType) { b.storage = storage }

// Narrow has the matrices that are added from now on and are trained stored in a type of half precision, with
// no other copy. Their gradients are float32, and so are vectors.
func (b *Builder) Narrow(dtype core.DType) { b.narrow = dtype }

// Set fills an entry from a floating-point tensor of its shape. A parameter in the tensor's
// own dtype gets the same bits. Int8 gets, for each row, the nearest multiples of a scale
// such that the largest magnitude becomes 127; NF4 gets what simd.NF4.Quantise says.
func (p *Param) Set(e Entry, from core.Tensor) {
	p.Written()
	to := e.View(p.Tensor)
	switch to.DType {
	case from.DType:
		copy(to.Data, from.Data)
	case core.Float32:
		from.Load(to.Float32s(), 0)
	case core.Int8:
		p.quantise(e, from)
	case core.NF4:
		p.quantiseNF4(e, from)
	default:
		wide := make([]float32, from.Elems())
		from.Load(wide, 0)
		to.Store(wide, 0)
	}
}

// SetInt8 fills an entry from int8 and what each of its rows is multiplied by.
func (p *Param) SetInt8(e Entry, from core.Tensor, scale []float32) error {
	to := e.View(p.Tensor)
	if to.DType != core.Int8 || !from.Shape.Equal(to.Shape) || len(scale) != to.Rows() {
		return fmt.Errorf("nn: %s is int8%v with %d scales, want %s%v", e.Name, from.Shape, len(scale), to.DType, to.Shape)
	}
	p.Written()
	copy(to.Data, from.Data)
	copy(p.Scale[e.Offset/e.Shape[len(e.Shape)-1]:], scale)
	return nil
}

func (p *Param) quantise(e Entry, from core.Tensor) {
	cols := e.Shape[len(e.Shape)-1]
	quantiseRows(e.View(p.Tensor).Int8s(), p.Scale[e.Offset/cols:], from, cols)
}

// Quantise returns a matrix as int8 [N, K] and what each row of that is multiplied by [N, 1].
func Quantise(w core.Tensor) (q, scale core.Tensor) {
	q, scale = core.NewTensor(core.Int8, w.Shape...), core.NewTensor(core.Float32, w.Rows(), 1)
	quantiseRows(q.Int8s(), scale.Float32s(), w, w.Shape[len(w.Shape)-1])
	return q, scale
}

// quantiseRows writes the multiples and the scale of each row of w, which has so many columns.
func quantiseRows(dst []int8, scale []float32, w core.Tensor, cols int) {
	simd.Parallel(len(dst)/cols, max(1, grain/cols), func(lo, hi int) {
		row := make([]float32, cols)
		for r := lo; r < hi; r++ {
			w.Load(row, r*cols)
			scale[r] = quantiseRow(dst[r*cols:(r+1)*cols], row)
		}
	})
}

// quantiseRow writes the multiples and returns the scale, 1 for a row of zeros. What is not finite makes the
// scale so too, and is found where the weights are used.
func quantiseRow(dst []int8, row []float32) (scale float32) {
	const most = math.MaxInt8
	var high float32
	for _, v := range row {
		high = max(high, float32(math.Abs(float64(v)))) // which keeps a NaN
	}
	if scale = high / most; scale == 0 {
		scale = 1
	}
	for i, v := range row {
		dst[i] = 0
		if scale > 0 {
			dst[i] = int8(min(most, max(-most, math.RoundToEven(float64(v)/float64(scale)))))
		}
	}
	return scale
}

// Load widens elements [from, from+len(dst)) of one row to float32.
func (p *Param) Load(dst []float32, from int) {
	switch p.Tensor.DType {
	case core.NF4:
		p.nf4(p.Tensor).Load(dst, from)
		return
	case core.Int8:
		cols := p.Tensor.Shape[len(p.Tensor.Shape)-1]
		simd.Int8ToFloat32(dst, p.Tensor.Int8s()[from:from+len(dst)], p.Scale[from/cols])
		return
	}
	p.Tensor.Load(dst, from)
}

// operand makes the rows of a parameter from the given one on an operand of a product, which
// widens them while they are packed. w is its tensor as an operation gets it.
func (p *Param) operand(w core.Tensor, row int) simd.Matrix {
	cols := w.Shape[len(w.Shape)-1]
	m, from := simd.Matrix{Stride: cols}, row*cols
	switch w.DType {
	case core.BFloat16:
		m.BFloat16 = w.Uint16s()[from:]
	case core.Float16:
		m.Float16 = w.Uint16s()[from:]
	case core.Int8:
		m.Int8, m.Scale = w.Int8s()[from:], p.Scale[row:]
	case core.NF4:
		q := p.nf4(w)
		m.Load = func(dst []float32, at int) { q.Load(dst, from+at) }
	default:
		m.Data = w.Float32s()[from:]
	}
	return m
}

// quantised reports whether others multiply what the parameter stores.
func quantised(p *Param) bool { return p.Tensor.DType == core.Int8 || p.Tensor.DType == core.NF4 }
