package forecast

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
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
// products: those of linear layers that are not trained and have a kernel that says that it keeps something, as many
// as there is room for, in the order of the model and the routers last. It returns how much memory that takes at most.
func Keep(m *models.Model, room int64) (weights []*nn.Param, bytes int64) {
	sites := map[string]core.Site{}
	for _, s := range m.Sites() {
		sites[s.Path] = s
	}
	for _, l := range slices.Concat(m.Linears(), m.Gates()) {
		p := l.Weight
		if !p.Frozen || slices.Contains(weights, p) || !keeps(sites, l.Site()) {
			continue
		}
		if n := keptBytes(p.Tensor); n <= room-bytes {
			weights, bytes = append(weights, p), bytes+n
		}
	}
	return weights, bytes
}

// keeps reports whether the kernel that does the work of a site, its own or that of one around it, says that it keeps
// something.
func keeps(sites map[string]core.Site, path string) bool {
	for s, ok := sites[path]; ok; s, ok = sites[s.Within] {
		if k := s.Hook.Kernel(); k != nil && k.Info().Keeps {
			return true
		}
	}
	return false
}

// keptBytes is what panels of a weight take at most for its products in both directions.
func keptBytes(w core.Tensor) int64 {
	out, in := w.Shape[0], w.Shape[1]
	return vector.KeptBytes(in, out, w.DType) + vector.KeptBytes(out, in, w.DType)
}
