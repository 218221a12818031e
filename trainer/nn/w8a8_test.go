package nn

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// recordings opens a file of published results.
func recordings(t *testing.T, name string) (tensor func(name string) core.Tensor, variants []string) {
	t.Helper()
	f, err := checkpoint.Open(filepath.Join(testdata.Shared(t, "golden", "ops"), name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for _, n := range f.Names() {
		if v, _, _ := strings.Cut(n, "."); !slices.Contains(variants, v) {
			variants = append(variants, v)
		}
	}
	return func(name string) core.Tensor {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}, variants
}

// TestWeightsBecomeTheInt8ThatIsRecorded: whole numbers and scales to the bit.
func TestWeightsBecomeTheInt8ThatIsRecorded(t *testing.T) {
	tensor, variants := recordings(t, "quantize_weight")
	seen := 0
	for _, v := range variants {
		if !strings.HasPrefix(v, "channel") {
			continue
		}
		seen++
		q, scale := Quantise(tensor(v + ".in.w"))
		for i, want := range tensor(v + ".out.q").Int32s() {
			if int32(q.Int8s()[i]) != want {
				t.Fatalf("%s: number %d is %d, want %d", v, i, q.Int8s()[i], want)
			}
		}
		if want := tensor(v + ".f32.scale").Float32s(); !slices.Equal(scale.Float32s(), want) {
			t.Errorf("%s: scales %v, want %v", v, scale.Float32s(), want)
		}
	}
	if seen < 4 {
		t.Errorf("%d variants were looked at", seen)
	}
}

// TestStaticScalesAreThoseRecorded: those of the sums, and the bias in whole numbers with the offset in it.
func TestStaticScalesAreThoseRecorded(t *testing.T) {
	tensor, variants := recordings(t, "linear_w8a8_static")
	for _, v := range variants {
		r := opdef.Recording{Variant: v, Tensor: tensor}
		weight := r.Int8s("weight")
		n := r.Shape("weight")[0]
		b := NewBuilder(autograd.Heap{})
		b.Freeze(func(p *Param) core.DType {
			if len(p.Tensor.Shape) == 1 {
				return core.Float32
			}
			return core.Int8
		})
		b.Scale(func(string) core.Scaling { return core.StaticScaling })
		bias := v != "offset_min128_nobias"
		l := NewLinear(b, "layer", len(weight)/n, n, bias)
		if err := b.Err(); err != nil {
			t.Fatal(err)
		}
		copy(l.Weight.Tensor.Int8s(), weight)
		copy(l.Weight.Scale, tensor(v+".in.weight_scale").Float32s())
		if bias {
			copy(l.Bias.Tensor.Float32s(), tensor(v+".in.bias").Float32s())
		}
		offset := r.Int32s("input_offset")[0]
		if err := l.SetStatic(tensor(v + ".in.input_scale").Float32s()[0], offset); err != nil {
			t.Fatal(err)
		}
		if got, want := l.int8.deqScale.Float32s(), tensor(v+".in.deq_scale").Float32s(); !slices.Equal(got, want) {
			t.Errorf("%s: scales %v, want %v", v, got, want)
		}
		if got, want := l.int8.quantBias.Int32s(), r.Int32s("quant_bias"); !slices.Equal(got, want) {
			t.Errorf("%s: bias %v, want %v", v, got, want)
		}
	}
	if len(variants) < 8 {
		t.Errorf("%d variants were looked at", len(variants))
	}
}
