package checkpoint

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/storage"
)

// CheckFinite refuses a tensor with an element that is NaN or infinite: no training gets rid
// of one, and every loss would be spoiled.
func CheckFinite(name string, t core.Tensor) error {
	at, found := storage.NonFinite(t)
	if !found {
		return nil
	}
	value := [1]float64{}
	if t.DType == core.Float64 {
		value[0] = t.Float64s()[at]
	} else {
		var narrow [1]float32
		storage.Load(narrow[:], t, at)
		value[0] = float64(narrow[0])
	}
	index := make([]int, len(t.Shape))
	for axis := len(t.Shape) - 1; axis >= 0; axis-- {
		index[axis], at = at%t.Shape[axis], at/t.Shape[axis]
	}
	return fmt.Errorf("tensor %s has the value %g at %v: the file is damaged, or was saved by a training that "+
		"diverged; take another copy, or an earlier checkpoint",
		name, value[0], index)
}
