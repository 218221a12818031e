package pre

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/simd/simdtest"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/qkv"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/w8a8"
	"github.com/seed98097648/tune/plugins/npu_fused_rmsnorm/rmsnorm"
	"github.com/seed98097648/tune/plugins/npu_fused_rope/rope"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.AttentionPre))
}

// TestAgreesWithPublishedCode: v of layers in int8 to the bit.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, new(Kernel), core.Float32, 0x1p-20)
}

func use(tokens int, change func(f *core.Facts)) kerneltest.Case {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 259, Eps: 1e-6, Cast: core.CastBeforeWeight,
		Residual: true, QKNorm: true, Pairing: core.Half, RotaryDim: 22, HeadDim: 38, Heads: 14, KVHeads: 7}
	change(&f)
	return kerneltest.Case{Op: core.AttentionPre, Tokens: tokens, Positions: 40, Seed: 1, Facts: f}
}

// uses are a few kinds of layers.
func uses(tokens int) map[string]kerneltest.Case {
	return map[string]kerneltest.Case{
		"float32": use(tokens, func(f *core.Facts) { f.Bias = true }),
		"int8":    use(tokens, func(f *core.Facts) { f.WeightDType = core.Int8 }),
		"static":  use(tokens, func(f *core.Facts) { f.WeightDType, f.Scaling = core.Int8, core.StaticScaling }),
		"dynamic": use(tokens, func(f *core.Facts) {
			f.WeightDType, f.Scaling, f.Bias = core.Int8, core.DynamicScaling, true
		}),
	}
}

// TestLargeCalls has products that are shared out among threads, and are large enough for tiles; and few rows.
func TestLargeCalls(t *testing.T) {
	for _, tokens := range []int{3, 16, 131, 397} {
		for name, c := range uses(tokens) {
			t.Run(name, func(t *testing.T) {
				kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
				simdtest.SameBits(t, new(Kernel), c)
			})
		}
	}
}

// TestBitsDoNotDependOnWhatIsKept: memory may be short, and a process that was started again has nothing.
func TestBitsDoNotDependOnWhatIsKept(t *testing.T) {
	for name, c := range uses(140) {
		if held := simdtest.SameBitsKept(t, new(Kernel), c); c.Facts.Scaling == "" && held < 2*28*38*259 {
			t.Errorf("%s: %d bytes are kept", name, held)
		}
	}
}

// TestBitsAreThoseOfTheSmallerKernels: a text is the same with them, as long as they are all in place.
func TestBitsAreThoseOfTheSmallerKernels(t *testing.T) {
	for _, tokens := range []int{1, 8, 70} {
		for name, use := range uses(tokens) {
			t.Run(name, func(t *testing.T) {
				c, _, err := kerneltest.Calls(t.Context(), new(Kernel), use)
				if err != nil {
					t.Fatal(err)
				}
				calls, want := apart(t, c)
				for _, p := range calls {
					if err := core.Run(t.Context(), p.Kernel, p.Call); err != nil {
						t.Fatal(err)
					}
				}
				for _, name := range []string{"q", "k", "v", "h"} {
					for i, v := range c.Output(name).Float32s() {
						if w := want[name].Float32s()[i]; math.Float32bits(v) != math.Float32bits(w) {
							t.Fatalf("%s: element %d is %v, and %v apart", name, i, v, w)
						}
					}
				}
			})
		}
	}
}

// part is a call of one of the smaller kernels.
type part struct {
	core.Kernel
	*core.Call
}

// apart returns calls of the kernels of the ops within a call, in order, and the tensors that have its outputs then.
func apart(t testing.TB, c *core.Call) (calls []part, out map[string]core.Tensor) {
	t.Helper()
	out = map[string]core.Tensor{}
	add := func(k core.Kernel, f core.Facts, in map[string]core.Tensor, outputs ...string) {
		call, err := core.NewCall(k.Info().Op, core.Forward, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range call.Sig.In {
			call.Set(a.Name, in[a.Name])
		}
		T := in[call.Sig.In[0].Name].Shape[0]
		for i, a := range call.Sig.Out {
			y := core.NewTensor(a.DType, a.Shape.Bind(T, 40)...)
			call.Set(a.Name, y)
			if i < len(outputs) {
				out[outputs[i]] = y
			}
		}
		calls = append(calls, part{k, call})
	}
	f := c.Facts
	norm := core.Facts{DType: f.DType, WeightDType: core.Float32, Dim: f.Dim, Eps: f.Eps, Cast: f.Cast}
	add(&rmsnorm.Kernel{Add: true}, norm, map[string]core.Tensor{"x": c.Input("x"), "residual": c.Input("residual"),
		"weight": c.Input("norm_weight")}, "n", "h")
	in := map[string]core.Tensor{}
	for i, a := range c.Sig.In {
		in[a.Name] = c.In[i]
	}
	in["x"] = out["n"]
	if f.Scaling == "" {
		add(new(qkv.Kernel), core.Facts{DType: f.DType, WeightDType: f.WeightDType, Frozen: true,
			Dim: f.Dim, HeadDim: f.HeadDim, Heads: f.Heads, KVHeads: f.KVHeads, Bias: f.Bias}, in, parts...)
	} else {
		for _, part := range parts {
			one := map[string]core.Tensor{"x": out["n"], "input_scale": in["input_scale"],
				"input_offset": in["input_offset"]}
			for _, name := range []string{"weight", "weight_scale", "bias", "deq_scale", "quant_bias"} {
				one[name] = in[part+"_"+name]
			}
			add(new(w8a8.Kernel), core.Facts{DType: f.DType, Dim: f.Dim, Out: one["weight"].Shape[0], Scaling: f.Scaling,
				Bias: f.Bias}, one, part)
		}
	}
	norm.Dim = f.HeadDim
	for _, part := range []string{"q", "k"} {
		y := out[part]
		heads := y.Elems() / c.Tokens() / f.HeadDim
		y.Shape = core.Shape{c.Tokens() * heads, f.HeadDim}
		add(new(rmsnorm.Kernel), norm, map[string]core.Tensor{"x": y, "weight": in[part+"_norm_weight"]}, part)
		y = out[part]
		y.Shape = core.Shape{c.Tokens(), heads, f.HeadDim}
		in[part] = y
	}
	add(new(rope.Kernel), core.Facts{DType: f.DType, Pairing: f.Pairing, RotaryDim: f.RotaryDim, HeadDim: f.HeadDim,
		Heads: f.Heads, KVHeads: f.KVHeads}, in, "q", "k")
	return calls, out
}

func TestThereIsNoBackwardPass(t *testing.T) {
	err := new(Kernel).Backward(t.Context(), &core.Call{Op: core.AttentionPre})
	if !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want one that wraps ErrNotSupported", err)
	}
}

// BenchmarkAttentionPre has it beside the smaller kernels, one after the other, with weights that stay as they are. It
// reports the fastest call of each, taken in turn.
func BenchmarkAttentionPre(b *testing.B) {
	for _, tokens := range []int{1, 8, 512} {
		for name, use := range uses(tokens) {
			f := &use.Facts
			f.Dim, f.HeadDim, f.RotaryDim, f.Heads, f.KVHeads, f.Bias = 1024, 128, 128, 16, 8, false
			b.Run(fmt.Sprintf("%s/%d", name, tokens), func(b *testing.B) {
				k := new(Kernel)
				c, _, err := kerneltest.Calls(b.Context(), k, use)
				if err != nil {
					b.Fatal(err)
				}
				for i := range c.In {
					c.In[i].Content = uint64(i + 1)
				}
				smaller, _ := apart(b, c)
				run := func(parts []part, fastest *time.Duration) {
					from := time.Now()
					for _, p := range parts {
						if err := core.Run(b.Context(), p.Kernel, p.Call); err != nil {
							b.Fatal(err)
						}
					}
					*fastest = min(*fastest, time.Since(from))
				}
				one, several := time.Hour, time.Hour
				for b.Loop() {
					run([]part{{k, c}}, &one)
					run(smaller, &several)
				}
				b.ReportMetric(float64(one.Microseconds()), "us-together")
				b.ReportMetric(float64(several.Microseconds()), "us-apart")
			})
		}
	}
}
