package nn

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// TestNF4IsThatOfPublishedCode compares codes, those of absmax, and numbers with recordings; without double
// quantisation, which tune always has, the codes alone.
func TestNF4IsThatOfPublishedCode(t *testing.T) {
	recorded(t, "quantize_weight", func(t *testing.T, r recording) {
		var params struct{ Method string }
		r.read(&params)
		if !strings.HasPrefix(params.Method, "nf4") {
			return
		}
		w := r.tensor("in.w")
		b := NewBuilder(autograd.Heap{})
		b.Freeze(func(*Param) core.DType { return core.NF4 })
		p := b.Param("w", w.Shape...)
		p.Set(p.Entries[0], w)
		for i, want := range r.tensor("out.packed").Int64s() {
			if int64(p.Tensor.Data[i]) != want {
				t.Fatalf("byte %d is %d, want %d", i, p.Tensor.Data[i], want)
			}
		}
		equal(t, "table", r.tensor("in.nf4_table").Float32s(), core.NF4Values[:])
		if params.Method != "nf4_dq" {
			return
		}
		for i, want := range r.tensor("out.absmax_q").Int32s() {
			if int32(p.absmax.Int8s()[i]) != want {
				t.Errorf("absmax %d has the code %d, want %d", i, p.absmax.Int8s()[i], want)
			}
		}
		nested := p.Scale[1<<8:]
		equal(t, "absmax_mean", nested[:1], r.tensor("f32.absmax_mean").Float32s())
		equal(t, "absmax_scale", nested[1:], r.tensor("f32.absmax_scale").Float32s())
		got := make([]float32, w.Elems())
		p.Load(got, 0)
		equal(t, "dequant", got, r.tensor("f32.dequant").Float32s())
	})
}

func TestNF4IsForTensorsThatBeginWithABlock(t *testing.T) {
	for _, tc := range []struct {
		sizes []int
		holds bool
	}{{[]int{63}, true}, {[]int{64, 64}, true}, {[]int{63, 63}, false}, {[]int{64, 128}, false}} {
		p := &Param{}
		for _, n := range tc.sizes {
			p.Entries = append(p.Entries, Entry{Shape: core.Shape{1, n}})
		}
		if p.HoldsNF4() != tc.holds {
			t.Errorf("tensors of %v elements: %v", tc.sizes, p.HoldsNF4())
		}
	}
}
