package kernel

import (
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// TestStoresWhereTheSlotsSay has a token for the last slot, one for the first, and one for none.
func TestStoresWhereTheSlotsSay(t *testing.T) {
	c, err := core.NewCall(core.ReshapeAndCache, core.Forward,
		core.Facts{DType: core.Float32, HeadDim: 1, KVHeads: 2, BlockSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	k, v := []float32{1, 2, 3, 4, 5, 6}, []float32{-1, -2, -3, -4, -5, -6}
	keys, values := []float32{9, 9, 9, 9, 9, 9, 9, 9}, []float32{8, 8, 8, 8, 8, 8, 8, 8}
	c.Set("k", core.FromFloat32(k, 3, 2, 1))
	c.Set("v", core.FromFloat32(v, 3, 2, 1))
	c.Set("slots", core.FromInt32([]int32{3, -1, 0}, 3))
	c.Set("k_cache", core.FromFloat32(keys, 2, 2, 2, 1))
	c.Set("v_cache", core.FromFloat32(values, 2, 2, 2, 1))
	if err := core.Run(t.Context(), kernel{}, c); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(keys, []float32{5, 6, 9, 9, 9, 9, 1, 2}) ||
		!slices.Equal(values, []float32{-5, -6, 8, 8, 8, 8, -1, -2}) {
		t.Errorf("caches %v and %v", keys, values)
	}
}

// TestAgreesInAllSizes runs the larger cases of the kit, too.
func TestAgreesInAllSizes(t *testing.T) {
	kerneltest.Run(t, kernel{}, kerneltest.Extremes(core.ReshapeAndCache))
}
