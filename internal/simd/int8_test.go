package simd

import (
	"slices"
	"testing"
)

// TestInt8EqualsItsLoop converts every number, at every length and every place in a vector,
// between guard pages.
func TestInt8EqualsItsLoop(t *testing.T) {
	all := make([]int8, 256)
	for i := range all {
		all[i] = int8(i - 128)
	}
	eachVariant(t, func(t *testing.T) {
		for n := range 70 {
			for from := 0; from+n <= len(all); from += 31 {
				src := guarded(t, slices.Clone(all[from:from+n]))
				got := guarded(t, make([]float32, n))
				Int8ToFloat32(got, src, -0.3)
				for i, v := range src {
					if want := -0.3 * float32(v); got[i] != want {
						t.Fatalf("%d numbers from %d on: number %d became %v, want %v", n, from, i, got[i], want)
					}
				}
			}
		}
	})
}
