package autograd

import "github.com/seed98097648/tune/core"

// Heap is a core.Memory on the Go heap, for programs and tests that have no plugins.
type Heap struct{}

var _ core.Memory = Heap{}

// Alloc implements core.Memory.
func (Heap) Alloc(n int) ([]byte, error) { return core.NewTensor(core.Int64, (n+7)/8).Data[:n], nil }

// Free implements core.Memory; the garbage collector does the work.
func (Heap) Free([]byte) {}
