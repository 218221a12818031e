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

// TestValuesOfBlocksFromAFileGiveWay where one of two tensors is quantised again: it gets what it would get alone, and the other
// keeps its numbers but for the rounding of its blocks'.
func TestValuesOfBlocksFromAFileGiveWay(t *testing.T) {
	packed := func() *Param {
		b := NewBuilder(autograd.Heap{})
		b.Freeze(func(*Param) core.DType { return core.NF4 })
		return b.packed("w", []Entry{{"w.0", 0, core.Shape{4, 64}}, {"w.1", 256, core.Shape{4, 64}}}, 2, 4, 64)
	}
	const elems, largest = 256, 3
	rng := newRand(3)
	first := core.FromFloat32(normal(rng, elems), 4, 64)
	alone := packed()
	alone.Set(alone.Entries[0], first)
	p, values := packed(), make([]float32, 1<<8)
	for i := range values {
		values[i] = float32(i%7) / 7
	}
	codes := make([]byte, elems/2)
	for i := range codes {
		codes[i] = byte(rng.Uint32())
	}
	for _, e := range p.Entries {
		if err := p.SetNF4(e, codes, []byte{1, 2, 3, 6}, values, []float32{2}, 1); err != nil {
			t.Fatal(err)
		}
	}
	was, got, want := make([]float32, elems), make([]float32, elems), make([]float32, elems)
	p.Load(was, elems)
	p.Set(p.Entries[0], first)
	p.Load(got, 0)
	alone.Load(want, 0)
	equal(t, "what is quantised again", got, want)
	p.Load(got, elems)
	for i := range got {
		if d := got[i] - was[i]; !(d*d < largest*largest/128./128.) {
			t.Fatalf("element %d of the other was %g and is %g", i, was[i], got[i])
		}
	}
}
