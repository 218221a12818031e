package models_test

import (
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// TestAWeightThatOutgrowsItsDTypeIsSavedAsFloat32 and read again as it was, beside others
// that keep theirs.
func TestAWeightThatOutgrowsItsDTypeIsSavedAsFloat32(t *testing.T) {
	m := newModel(t, family("qwen3"), 1)
	full := named(t, m)
	for _, tt := range []struct {
		dtype core.DType
		value float32
		wide  bool
	}{
		{core.Float16, 65519, false},
		{core.Float16, 65520, true},
		{core.Float16, -1e6, true},
		{core.BFloat16, math.Float32frombits(0x7f7f7fff), false},
		{core.BFloat16, math.MaxFloat32, true},
	} {
		half := slices.Clone(full)
		for i, n := range half {
			half[i].Tensor = core.NewTensor(tt.dtype, n.Tensor.Shape...)
			half[i].Tensor.Store(n.Tensor.Float32s(), 0)
		}
		m := load(t, folder(t, m.RawConfig, half))
		p := m.Params()[3]
		p.Tensor.Float32s()[5] = tt.value
		s, err := m.Saved()
		if err != nil {
			t.Fatalf("%s %g: %v", tt.dtype, tt.value, err)
		}
		var want []string
		if tt.wide {
			want = []string{p.Name}
		}
		if !slices.Equal(s.Widened, want) {
			t.Errorf("%s %g: widened %q, want %q", tt.dtype, tt.value, s.Widened, want)
		}
		for _, w := range s.Weights {
			d := tt.dtype
			if slices.Contains(want, w.Name) {
				d = core.Float32
			}
			if w.DType() != d {
				t.Errorf("%s %g: %s is %s, want %s", tt.dtype, tt.value, w.Name, w.DType(), d)
			}
		}
		again := load(t, folder(t, m.RawConfig, s.Weights))
		if got := again.Params()[3].Tensor.Float32s()[5]; tt.wide && got != tt.value {
			t.Errorf("%s: %g is read again as %g", tt.dtype, tt.value, got)
		}
	}
}
