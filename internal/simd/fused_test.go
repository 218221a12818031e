package simd

import (
	"slices"
	"testing"
)

func TestUpdate8IsUpdateOfWhatTheCodesStandFor(t *testing.T) {
	eachVariant(t, update8IsUpdateOfWhatTheCodesStandFor)
}

func update8IsUpdateOfWhatTheCodesStandFor(t *testing.T) {
	s := &AdamWStep{Scale: 0.5, Keep: 0.99, Beta1: 0.9, New1: 0.1, Beta2: 0.99, New2: 0.01, Step: 1e-2, Eps: 1e-8}
	for _, n := range []int{3*CodeBlock + 50, CodeBlock, 48, 3, 0} {
		signed, numbers := codesOf(true, 1200)
		unsigned := NewCodes(false)
		p, g := guarded(t, numbers[:n]), guarded(t, numbers[300:300+n])
		code1, code2 := guarded(t, make([]uint8, n)), guarded(t, make([]uint8, n))
		for i := range n {
			code1[i], code2[i] = uint8(7*i), uint8(11*i)
		}
		max1, max2 := guarded(t, []float32{0.3, 0.2, 0, 7}), guarded(t, []float32{0.02, 0.5, 0, 0.01})
		max1, max2 = max1[:blocks(n)], max2[:blocks(n)]
		want, want1, want2 := slices.Clone(p), make([]uint8, n), make([]uint8, n)
		var most1, most2 []float32
		for i := range blocks(n) {
			lo, hi := i*CodeBlock, min((i+1)*CodeBlock, n)
			m, v := make([]float32, hi-lo), make([]float32, hi-lo)
			signed.Decode(m, code1[lo:hi], max1[i])
			unsigned.Decode(v, code2[lo:hi], max2[i])
			s.Update(want[lo:hi], g[lo:hi], m, v)
			most1, most2 = append(most1, MaxAbs(m)), append(most2, MaxAbs(v))
			signed.Encode(want1[lo:hi], m, most1[i:])
			unsigned.Encode(want2[lo:hi], v, most2[i:])
		}

		s.Update8(p, g, Moments{signed, code1, max1}, Moments{unsigned, code2, max2}, guarded(t, make([]float32, n)),
			guarded(t, make([]float32, n)))
		if !slices.Equal(p, want) || !slices.Equal(code1, want1) || !slices.Equal(code2, want2) {
			t.Errorf("%d elements: an update in one differs from one step by step", n)
		}
		if !slices.Equal(max1, most1) || !slices.Equal(max2, most2) {
			t.Errorf("%d elements: the largest moments are %g and %g, want %g and %g", n, max1, max2, most1, most2)
		}
	}
}
