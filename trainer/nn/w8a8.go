package nn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Scale has linear layers that are added from now on multiply int8 by int8, where scaling returns how activations
// become that; "" for layers that multiply as ever. It is asked about a layer's path. Such a layer's weight must
// be int8, which Freeze decides, and the model cannot be trained.
func (b *Builder) Scale(scaling func(path string) core.Scaling) { b.scaling = scaling }

// int8Layer is what a linear layer that multiplies int8 by int8 has besides weight and bias.
type int8Layer struct {
	scaling core.Scaling
	// What static scaling has; see linear_w8a8.
	inputScale, inputOffset, deqScale, quantBias core.Tensor
}

// Path returns what the names of the layer's parameters begin with.
func (l *Linear) Path() string { return strings.TrimSuffix(l.Weight.Name, ".weight") }

// Site returns the path of the layer's own site, "" if it has none. The kernel of a larger one may do its work; see
// core.Site.Within.
func (l *Linear) Site() string {
	if l.site == nil {
		return ""
	}
	return l.site.path
}

// Scaling returns how the layer's activations become int8, "" if they do not.
func (l *Linear) Scaling() core.Scaling {
	if l.int8 == nil {
		return ""
	}
	return l.int8.scaling
}

// Linears returns the linear layers but routers, also a head that shares the embedding's weight.
func (b *Body) Linears() []*Linear { return b.layers }

// Gates returns the linear layers of routers.
func (b *Body) Gates() []*Linear { return b.gates }

// offerInt8 adds the site of a layer that multiplies int8, and memory for what its file has not.
func (l *Linear) offerInt8(b *Builder, path string, scaling core.Scaling) {
	w := l.Weight.Tensor
	l.int8 = &int8Layer{scaling: scaling}
	l.site = b.site(path, core.LinearW8A8, core.Facts{Dim: w.Shape[1], Out: w.Shape[0], Scaling: scaling,
		Bias: l.Bias != nil && scaling == core.DynamicScaling})
	switch {
	case b.err != nil || scaling == core.DynamicScaling:
		return
	case w.DType != core.Int8:
		b.err = fmt.Errorf("nn: %s is to multiply int8, but its weight is %s", l.Path(), w.DType)
		return
	}
	for _, t := range []struct {
		to   *core.Tensor
		of   core.DType
		size int
	}{{&l.int8.inputScale, core.Float32, 1}, {&l.int8.inputOffset, core.Int32, 1}, {&l.int8.deqScale, core.Float32, w.Shape[0]},
		{&l.int8.quantBias, core.Int32, w.Shape[0]}} {
		if *t.to, b.err = core.NewTensorIn(b.mem, t.of, t.size); b.err != nil {
			b.err = fmt.Errorf("nn: scales of %s: %w", l.Path(), b.err)
			return
		}
	}
}

// int8Block adds the site of a whole MLP if each of its layers will multiply int8 with a scale for each token; nil if not,
// or with a bias or another activation than silu, which shared_expert_ffn has not.
func (b *Builder) int8Block(path, sitePath string, swiglu core.Facts, hidden int, bias bool) *site {
	layers := []string{".gate_proj", ".up_proj", ".down_proj"}
	if swiglu.Layout == core.Packed {
		layers = []string{".gate_up_proj", ".down_proj"}
	}
	if b.scaling == nil || bias || swiglu.Activation != core.SiLU || slices.ContainsFunc(layers, func(layer string) bool {
		return b.scaling(path+layer) != core.DynamicScaling
	}) {
		return nil
	}
	swiglu.Dim = hidden
	return b.site(sitePath+".block", core.SharedExpertFFN, swiglu)
}

// free gives the memory of static scaling back.
func (l *int8Layer) free(mem core.Memory) {
	if l != nil {
		freeAll(mem, l.inputScale, l.inputOffset, l.deqScale, l.quantBias)
	}
}

// SetStatic gives a layer with static scaling the scale and offset of its activations. Its weight and bias must
// be there.
func (l *Linear) SetStatic(scale float32, offset int32) error {
	if !(scale > 0) || math.IsInf(float64(scale), 1) || offset < math.MinInt8 || offset > math.MaxInt8 {
		return fmt.Errorf("nn: %s: activations cannot have the scale %g and the offset %d: a scale is positive, an offset int8",
			l.Path(), scale, offset)
	}
	i, cols := l.int8, l.Weight.Tensor.Shape[1]
	i.inputScale.Float32s()[0], i.inputOffset.Int32s()[0] = scale, offset
	deq, bias := i.deqScale.Float32s(), i.quantBias.Int32s()
	for n := range deq {
		deq[n] = scale * l.Weight.Scale[n]
		added := 0.0
		if l.Bias != nil {
			added = math.RoundToEven(float64(l.Bias.Tensor.Float32s()[n] / deq[n]))
		}
		for _, w := range l.Weight.Tensor.Int8s()[n*cols:][:cols] {
			added -= float64(offset) * float64(w)
		}
		if !(math.Abs(added) <= math.MaxInt32/2) { // the other half is for what it is added to
			return fmt.Errorf("nn: %s: the bias of row %d is %g of its scale %g: more than int32 holds", l.Path(), n, added, deq[n])
		}
		bias[n] = int32(added)
	}
	return nil
}

// multiplyInt8 records a layer that multiplies int8.
func (l *Linear) multiplyInt8(c *Context, x *autograd.Value) *autograd.Value {
	in := []*autograd.Value{x, c.Leaf(l.Weight)}
	if l.int8.scaling == core.StaticScaling {
		in = append(in, l.static(c)...)
	} else if in = append(in, c.scaleOf(l.Weight)...); l.Bias != nil {
		in = append(in, c.Leaf(l.Bias))
	}
	t := x.Shape()[0]
	if l.kernel != nil {
		return l.fused(c, t, in...)[0]
	}
	return c.G.Apply(int8Op(t, l.facts), in...)
}

// static are what static scaling has: input_scale, input_offset, deq_scale and quant_bias.
func (l *Linear) static(c *Context) (in []*autograd.Value) {
	for _, t := range []struct {
		name string
		of   core.Tensor
	}{{"input_scale", l.int8.inputScale}, {"input_offset", l.int8.inputOffset}, {"deq_scale", l.int8.deqScale},
		{"quant_bias", l.int8.quantBias}} {
		in = append(in, c.G.Input(l.Path()+"."+t.name, t.of))
	}
	return in
}

func int8Op(t int, f core.Facts) autograd.Op {
	return autograd.Op{Name: string(core.LinearW8A8), Outputs: []autograd.Spec{autograd.Float32(t, f.Out)},
		Work: products(1, t, f.Out, f.Dim),
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			p := simd.W8A8{M: t, N: f.Out, K: f.Dim, X: in[0].Float32s(), Weight: in[1].Int8s(), Y: out[0].Float32s()}
			if f.Scaling == core.StaticScaling {
				p.Static, p.InputScale, p.InputOffset = true, in[2].Float32s()[0], in[3].Int32s()[0]
				p.Scale, p.QuantBias = in[4].Float32s(), in[5].Int32s()
			} else if p.Scale = in[2].Float32s(); f.Bias {
				p.Bias = in[3].Float32s()
			}
			p.Multiply()
			return nil
		}}
}

// observed has an operation of a layer show its input to the context's observer first.
func (l *Linear) observed(c *Context, op autograd.Op) autograd.Op {
	if c.Observe == nil {
		return op
	}
	forward := op.Forward
	op.Forward = func(ctx context.Context, in, out []core.Tensor) error {
		c.Observe(l, in[0].Float32s())
		return forward(ctx, in, out)
	}
	return op
}
