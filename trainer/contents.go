package trainer

import (
	"slices"

	"github.com/seed98097648/tune/trainer/forecast"
)

// nameContents tells kernels what does not change, so that they may keep what they make of it: all that
// is trained, until the next step, and of the weights that are frozen as many as there is room for
// beside the graph and the moments, most of which nobody has touched yet.
func (e *Engine) nameContents(free int64) {
	rest := int64(e.program.Bytes()) + 4*int64(e.model.Elems()) + e.StateBytes()
	weights, bytes := forecast.Keep(e.model, forecast.Room(free, rest, e.cfg.MaxKept))
	for _, p := range e.model.Params() {
		if !p.Frozen || slices.Contains(weights, p) {
			p.Changed()
		}
	}
	e.kept = bytes
}

// Kept returns how much memory kernels keep packed weights in, at most.
func (e *Engine) Kept() int64 { return e.kept }
