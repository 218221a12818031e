package reference_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

// TestSharpAttentionIsThatOfFloat64: scores of some hundred make of each rounding of a
// score a relative error of its exponential as large as many roundings. Single is held to
// the eight that published code is compared with.
func TestSharpAttentionIsThatOfFloat64(t *testing.T) {
	for _, headDim := range []int{16, 64, 128} {
		f := core.Facts{DType: core.Float32, HeadDim: headDim, Heads: 4, KVHeads: 2}
		const tokens = 40
		rng := rand.New(rand.NewPCG(uint64(headDim), 1))
		random := func(scale float64, shape ...int) core.Tensor {
			x := core.NewTensor(core.Float32, shape...)
			for i := range x.Float32s() {
				x.Float32s()[i] = float32(scale * rng.NormFloat64())
			}
			return x
		}
		in := map[string]core.Tensor{"q": random(100, tokens, 4, headDim), "k": random(1, tokens, 2, headDim),
			"v":  random(1, tokens, 2, headDim),
			"dy": random(1, tokens, 4, headDim), "keys": core.NewTensor(core.Int32, tokens, 2)}
		for i := range tokens {
			in["keys"].Int32s()[2*i+1] = int32(i) + 1
		}
		for _, pass := range []core.Pass{core.Forward, core.Backward} {
			want, got := outputs(t, reference.Kernel(core.Attention), f, pass, in),
				outputs(t, reference.Single(core.Attention), f, pass, in)
			for i, a := range want.Sig.Out {
				worst, largest := 0.0, 0.0
				for j, w := range want.Out[i].Float32s() {
					worst = max(worst, math.Abs(float64(got.Out[i].Float32s()[j])-float64(w)))
					largest = max(largest, math.Abs(float64(w)))
				}
				if !(worst <= 0x1p-20*largest) {
					t.Errorf("head_dim %d: %s is off by %.2g of its largest element, want %.2g at most", headDim, a.Name,
						worst/largest, 0x1p-20)
				}
				in[a.Name] = want.Out[i]
			}
		}
	}
}

// outputs runs a pass on the tensors of these names.
func outputs(t *testing.T, k core.Kernel, f core.Facts, pass core.Pass, in map[string]core.Tensor) *core.Call {
	t.Helper()
	c, err := core.NewCall(core.Attention, pass, f)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range c.Sig.In {
		c.In[i] = in[a.Name]
	}
	for i, a := range c.Sig.Out {
		c.Out[i] = core.NewTensor(a.DType, a.Shape.Bind(in["q"].Shape[0], 0)...)
	}
	if err := core.Run(t.Context(), k, c); err != nil {
		t.Fatal(err)
	}
	return c
}
