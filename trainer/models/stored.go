package models

import "github.com/seed98097648/tune/core"

// Stored returns the dtype in which files keep a tensor; see Named.
func (m *Model) Stored(name string) core.DType {
	if d := m.stored[name]; d != core.InvalidDType {
		return d
	}
	return core.Float32
}
