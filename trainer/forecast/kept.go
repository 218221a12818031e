package forecast

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// Room returns how much memory kernels may keep their packed weights in, where of what is free a run needs
// so much for the rest, most of which nobody may have touched yet: half of what that leaves, or, of all that it
// leaves, what most says: 0 says nothing, and a negative number that nothing is kept. Where nothing tells what
// is free, which is 0, there is room for all.
func Room(free, rest, most int64) int64 {
	switch left := max(free-rest, 0); {
	case most < 0:
		return 0
	case most > 0 && free > 0:
		return min(most, left)
	case most > 0:
		return most
	case free > 0:
		return left / 2
	}
	return math.MaxInt64
}

// Keep chooses the weights of which the kernels at a model's sites may keep what they make, as panels for
// products: those of linear layers that are not trained, as many as there is room for, in the order of the model.
// It returns how much memory that takes at most. Without a kernel that says that it keeps something there are
// none.
func Keep(m *models.Model, room int64) (weights []*nn.Param, bytes int64) {
	if !keeps(m) {
		return nil, 0
	}
	for _, p := range m.Params() {
		if !p.Frozen || len(p.Tensor.Shape) != 2 {
			continue
		}
		if n := keptBytes(p.Tensor); n <= room-bytes {
			weights, bytes = append(weights, p), bytes+n
		}
	}
	return weights, bytes
}

// keeps reports whether a kernel at a site of frozen weights says that it keeps something.
func keeps(m *models.Model) bool {
	for _, s := range m.Sites() {
		if k := s.Hook.Kernel(); k != nil && s.Facts.Frozen && k.Info().Keeps {
			return true
		}
	}
	return false
}

// keptBytes is what panels of a weight take at most for its products in both directions: of bfloat16 2 bytes
// an element, and of what is widened on its way 6, each axis filled up to a multiple of 32.
func keptBytes(w core.Tensor) int64 {
	full := func(n int) int64 { return (int64(n) + 31) / 32 * 32 }
	each := int64(6)
	if w.DType == core.BFloat16 {
		each = 2
	}
	return 2 * each * full(w.Shape[0]) * full(w.Shape[1])
}
