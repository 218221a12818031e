package opdef

import "testing"

func TestSwiGLUAtZeroIsHalfASlope(t *testing.T) {
	dgate, dup := SwiGLUGradient([]float64{3}, []float64{0}, []float64{5})
	if dgate[0] != 3*5/2. || dup[0] != 0 {
		t.Errorf("gradients %v and %v, want 7.5 and 0", dgate, dup)
	}
}
