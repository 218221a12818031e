package bench

import (
	"strings"

	"github.com/seed98097648/tune/core"
)

// LinkedPrefix begins a variant that takes its kernels from Options.Linked, where they
// have no process of their own, as in linked:all. Beside the variant without it, it shows
// what the boundary between processes costs.
const LinkedPrefix = "linked:"

// kernelsOf returns the kernels that a variant chooses from, and its selection.
func (o Options) kernelsOf(variant string) (reg *core.Registry, selection string) {
	if selection, ok := strings.CutPrefix(variant, LinkedPrefix); ok {
		return o.Linked, selection
	}
	return o.Registry, variant
}
