package simd

import (
	"slices"
	"testing"
)

func TestUpdate8IsUpdateOfWhatTheCodesStandFor(t *testing.T) {
	eachVariant(t, update8IsUpdateOfWhatTheCodesStandFor)
}

func update8IsUpdateOfWhatTheCodesStandFor(t *testing.T) {
	s := &AdamWStep{Scale: 0.5, Keep: 0.99, Beta1: 0.9, New1: 0.1, Beta2: 0.99, New2: 0.01, Step: 1e-2, Root2: 0.3, Eps: 1e-8}
	for _, n := range []int{256, 48, 50, 3, 0} {
		signed, numbers := codesOf(true, 600)
		unsigned := NewCodes(false)
		p, g := guarded(t, numbers[:n]), guarded(t, numbers[300:300+n])
		code1, code2 := guarded(t, make([]uint8, n)), guarded(t, make([]uint8, n))
		for i := range n {
			code1[i], code2[i] = uint8(7*i), uint8(11*i)
		}
		max1, max2 := float32(0.3), float32(0.02)
		m, v, want := make([]float32, n), make([]float32, n), slices.Clone(p)
		signed.Decode(m, code1, max1)
		unsigned.Decode(v, code2, max2)
		s.Update(want, g, m, v)
		want1, want2 := make([]uint8, n), make([]uint8, n)
		signed.Encode(want1, m, MaxAbs(m))
		unsigned.Encode(want2, v, MaxAbs(v))

		s.Update8(p, g, Moment{signed, code1, &max1}, Moment{unsigned, code2, &max2}, guarded(t, make([]float32, n)),
			guarded(t, make([]float32, n)))
		if !slices.Equal(p, want) || !slices.Equal(code1, want1) || !slices.Equal(code2, want2) {
			t.Errorf("%d elements: an update in one differs from one step by step", n)
		}
		if max1 != MaxAbs(m) || max2 != MaxAbs(v) {
			t.Errorf("%d elements: the largest moments are %g and %g, want %g and %g", n, max1, max2, MaxAbs(m), MaxAbs(v))
		}
	}
}
