package nn

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// suffixM is what the magnitudes of a module are called below its path, in files as PEFT writes them.
const suffixM = ".lora_magnitude_vector"

// Decompose makes the adapter of a target one of the direction of its weight alone (DoRA: Liu et al., "DoRA:
// Weight-Decomposed Low-Rank Adaptation", 2024): row n of W + scale * B A, divided by its own norm, is multiplied by
// element n of a trainable parameter [out], which it returns: the norms, until somebody sets it. The norm is a
// constant of the backward pass, as the paper has it.
func (b *Body) Decompose(t Target) (M *Param, err error) {
	l := *t.at
	switch {
	case l == nil:
		return nil, fmt.Errorf("nn: %s has no adapter to decompose", t.Name)
	case t.layer == nil:
		return nil, errors.New("magnitudes (DoRA) are for linear layers, not for experts: name layers without these")
	case l.Dropout > 0:
		return nil, errors.New("magnitudes (DoRA) have no dropout beside them: leave it out")
	}
	M = &Param{Name: t.Name + suffixM, Entries: []Entry{{t.Name + suffixM, 0, core.Shape{t.Out}}},
		Tensor: core.Tensor{DType: core.Float32, Shape: core.Shape{t.Out}}}
	if err := M.alloc(b.mem); err != nil {
		return nil, err
	}
	clear(M.Tensor.Data)
	b.params = append(b.params, M)
	l.m = M
	return M, nil
}

// RowNorms writes the norms of the rows of W + scale * B A, of a target that was decomposed.
func (t Target) RowNorms(dst []float32) { (*t.at).rowNorms(dst, t.layer.Weight) }

func (l *adapter) rowNorms(dst []float32, weight *Param) {
	rank, in := l.sizes(l.a)
	a, b := l.a.Tensor.Float32s(), l.b.Tensor.Float32s()
	simd.Parallel(len(dst), max(1, grain/(in*(rank+1))), func(lo, hi int) {
		row := make([]float32, in)
		for n := lo; n < hi; n++ {
			weight.Load(row, n*in)
			for r, v := range b[n*rank:][:rank] {
				simd.Axpy(float32(l.Scale)*v, a[r*in:][:in], row)
			}
			dst[n] = float32(math.Sqrt(simd.SumSquares(row)))
		}
	})
}

// Gain returns what a row is multiplied by that has a magnitude and a norm: 0 for a row of zeros, which has
// no direction.
func Gain(magnitude, norm float32) float32 {
	if norm == 0 {
		return 0
	}
	return magnitude / norm
}

// decomposed records what the magnitudes make of y, the layer's output with its adapter and bias: y [T, out].
func (l *adapter) decomposed(c *Context, layer *Linear, y *autograd.Value) *autograd.Value {
	if l == nil || l.m == nil {
		return y
	}
	defer c.aside()() // the backward pass needs y, which is a product
	weight, out := layer.Weight, y.Shape()[1]
	rank, in := l.sizes(l.a)
	norm := c.G.Apply(autograd.Op{Name: "dora_norm", Outputs: []autograd.Spec{autograd.Float32(out)},
		Work: products(1, rank, out, in),
		Forward: func(_ context.Context, _, norm []core.Tensor) error {
			l.rowNorms(norm[0].Float32s(), weight)
			return nil
		}}, c.Leaf(weight), c.Leaf(l.a), c.Leaf(l.b))
	of := []*autograd.Value{y, c.Leaf(l.m), norm}
	if layer.Bias != nil {
		of = append(of, c.Leaf(layer.Bias))
	}
	return c.G.Apply(doraOp(y.Shape()[0], out, layer.Bias != nil), of...)
}

// doraOp is z = m / norm * (y - bias) + bias, of y, m, norm and the bias. Bias and norm get no gradient.
func doraOp(t, out int, bias bool) autograd.Op {
	gains := func(in []core.Tensor) []float32 {
		gain, m, norm := make([]float32, out), in[1].Float32s(), in[2].Float32s()
		for n := range gain {
			gain[n] = Gain(m[n], norm[n])
		}
		return gain
	}
	biasOf := func(in []core.Tensor) []float32 {
		if bias {
			return in[3].Float32s()
		}
		return nil
	}
	reads := []int{0, 1, 2}
	if bias {
		reads = append(reads, 3)
	}
	return autograd.Op{Name: "dora", Outputs: []autograd.Spec{autograd.Float32(t, out)},
		Forward: func(_ context.Context, in, z []core.Tensor) error {
			y, gain, b := in[0].Float32s(), gains(in), biasOf(in)
			eachRow(t, out, func(r int) {
				to, from := z[0].Float32s()[r*out:][:out], y[r*out:][:out]
				for n, g := range gain {
					if b != nil {
						to[n] = float32(g*(from[n]-b[n])) + b[n]
					} else {
						to[n] = g * from[n]
					}
				}
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: reads, Wrt: []int{0, 1}, Run: func(_ context.Context, g *autograd.Grads) error {
			y, dz := g.In[0].Float32s(), g.DOut[0].Float32s()
			if d := g.DIn[0]; !d.IsZero() {
				gain := gains(g.In)
				eachRow(t, out, func(r int) { simd.Mul(d.Float32s()[r*out:][:out], dz[r*out:][:out], gain) })
			}
			if d := g.DIn[1]; !d.IsZero() {
				norm, b := g.In[2].Float32s(), biasOf(g.In)
				columnSums(d.Float32s(), t, func(sum []float64, r int) {
					for n := range sum {
						v := float64(y[r*out+n])
						if b != nil {
							v -= float64(b[n])
						}
						if norm[n] != 0 {
							sum[n] += float64(dz[r*out+n]) * v / float64(norm[n])
						}
					}
				})
			}
			return nil
		}},
	}
}
