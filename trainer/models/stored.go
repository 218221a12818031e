package models

import (
	"cmp"

	"github.com/seed98097648/tune/core"
)

// Stored returns the dtype in which files keep a tensor; see Named.
func (m *Model) Stored(name string) core.DType {
	return cmp.Or(m.stored[name], core.Float32)
}
