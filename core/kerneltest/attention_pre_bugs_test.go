package kerneltest_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// withFloats runs a call with another input of float32.
func withFloats(name string, f func(c *core.Call, v []float32)) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		other := *c
		other.In = slices.Clone(c.In)
		x := core.NewTensor(core.Float32, c.Input(name).Shape...)
		copy(x.Data, c.Input(name).Data)
		f(c, x.Float32s())
		other.Set(name, x)
		return run(&other)
	}
}

// TestBugsBeforeAttentionAreCaught plants what goes wrong where several ops are one.
func TestBugsBeforeAttentionAreCaught(t *testing.T) {
	float := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 64, Eps: 1e-6, Cast: core.CastBeforeWeight,
		Residual: true, QKNorm: true, Pairing: core.Half, RotaryDim: 8, HeadDim: 16, Heads: 4, KVHeads: 2}
	static, dynamic := float, float
	static.WeightDType, static.Scaling = core.Int8, core.StaticScaling
	dynamic.WeightDType, dynamic.Scaling, dynamic.Bias = core.Int8, core.DynamicScaling, true
	for _, b := range []struct {
		name, want string
		facts      core.Facts
		bug        func(runFunc, *core.Call) error
	}{
		{"a norm of x without the residual", "forward q", float, withFloats("residual", func(_ *core.Call, v []float32) {
			clear(v)
		})},
		{"the norm of k with the weight of q's", "forward k", float,
			withFloats("k_norm_weight", func(c *core.Call, v []float32) { copy(v, c.Input("q_norm_weight").Float32s()) })},
		{"a rotation by the token's number, not its position", "forward q", float,
			withIndices("positions", func(_ *core.Call, v []int32) {
				for i := range v {
					v[i] = int32(i % 11)
				}
			})},
		{"v is rotated too", "forward v", float, after("v", func(c *core.Call, v []float32) {
			f := c.Facts
			for i := range c.Tokens() * f.KVHeads {
				at := int(c.Input("positions").Int32s()[i/f.KVHeads]) * f.RotaryDim / 2
				cos, sin := c.Input("cos").Float32s()[at], c.Input("sin").Float32s()[at]
				head := v[i*f.HeadDim:]
				a, b := head[0], head[f.RotaryDim/2]
				head[0], head[f.RotaryDim/2] = a*cos-b*sin, b*cos+a*sin
			}
		})},
		{"the scale of q for k", "forward k", static, withFloats("k_deq_scale", func(c *core.Call, v []float32) {
			copy(v, c.Input("q_deq_scale").Float32s())
		})},
		{"an offset that is left out", "forward q", static, withIndices("input_offset", func(_ *core.Call, v []int32) {
			v[0] = 0
		})},
		{"x quantised before the norm's weight", "forward q", dynamic,
			withFloats("norm_weight", func(_ *core.Call, v []float32) {
				for i := range v {
					v[i] = 1
				}
			})},
		{"a bias that is left out", "forward v", dynamic,
			withFloats("v_bias", func(_ *core.Call, v []float32) { clear(v) })},
		{"saturation of int16 sums", "forward v", dynamic, after("v", saturatesV)},
	} {
		t.Run(b.name, func(t *testing.T) {
			k := faulty{reference.Single(core.AttentionPre), b.bug}
			if err := kerneltest.Verify(t.Context(), k, b.facts); err == nil || !strings.Contains(err.Error(), b.want) {
				t.Errorf("verify: %v", err)
			}
			if err := kerneltest.Check(k, kerneltest.CasesFor(core.AttentionPre, b.facts)); err == nil {
				t.Error("the cases do not catch it")
			}
		})
	}
}

// saturatesV takes from v what is lost in int16.
func saturatesV(c *core.Call, v []float32) {
	f, scale, weight := c.Facts, c.Input("v_weight_scale").Float32s(), c.Input("v_weight").Int8s()
	n, gain := make([]float32, f.Dim), c.Input("norm_weight").Float32s()
	for t := range c.Tokens() {
		var squares float64
		var s float32
		h := c.Output("h").Float32s()[t*f.Dim:][:f.Dim]
		for _, x := range h {
			squares += float64(x) * float64(x)
		}
		for i, x := range h {
			n[i] = x * gain[i] / float32(math.Sqrt(squares/float64(f.Dim)+f.Eps))
			s = max(s, n[i]/127, -n[i]/127)
		}
		for row := range scale {
			v[t*len(scale)+row] -= float32(lostInInt16(n, s, weight[row*f.Dim:])) * s * scale[row]
		}
	}
}
