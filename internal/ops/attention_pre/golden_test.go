package attentionpre

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// TestTheNormIsQuantisedAsRecorded compares whole numbers, in both arithmetics: they are equal, or wrong.
func TestTheNormIsQuantisedAsRecorded(t *testing.T) {
	f, err := checkpoint.Open(filepath.Join(testdata.Shared(t, "golden", "ops"), "attention_pre.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	for variant, offset := range map[string]int32{"w8a8_half": 5, "w8a8_half_plain": -9, "w8a8_interleaved": 0,
		"w8a8_gqa12_d128": -20, "w8a8_decode_far": 3} {
		tensor := func(name string) core.Tensor {
			x, err := f.Tensor(variant + name)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		scale, eps := tensor(".in.input_scale").Float32s()[0], 1e-5
		if variant == "w8a8_interleaved" {
			eps = 1e-6
		}
		var bias []float32
		if _, _, ok := f.Lookup(variant + ".in.norm_bias"); ok {
			bias = tensor(".in.norm_bias").Float32s()
		}
		h, want := tensor(".f32.residual_out").Float32s(), tensor(".out.x_q").Int32s()
		facts := core.Facts{DType: core.Float32, Dim: tensor(".in.norm_weight").Shape[0], Eps: eps,
			Cast: core.CastBeforeWeight}
		n := normToQuantise(facts, h, tensor(".in.norm_weight").Float32s(), bias)
		for i, q := range opdef.QuantiseStatic(core.Float32, n, scale, offset) {
			if int32(q) != want[i] {
				t.Fatalf("%s: element %d is %d, and is to be %d", variant, i, q, want[i])
			}
		}
		published := tensor(".f64.normed").Float64s()
		for i, v := range n {
			if !(math.Abs(float64(v)-published[i]) <= 0x1p-20*math.Abs(published[i])+0x1p-23) {
				t.Fatalf("%s: the norm's element %d is %g, and is to be %g", variant, i, v, published[i])
			}
		}
	}
}
