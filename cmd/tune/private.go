package main

import (
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/os/hugepage"
)

// privateMemory is memory that no plugin sees. It has large pages, which shared memory has not on
// common systems: to write a token reads every weight, a quarter faster from these.
type privateMemory struct{ hugepage.Memory }

// Close implements io.Closer; what was not freed ends with the process.
func (*privateMemory) Close() error { return nil }

// memoryFor returns memory for a model that is used with these kernels.
func memoryFor(kernels string) (transport.Memory, error) {
	if kernels == "none" {
		return &privateMemory{}, nil
	}
	return newMemory()
}
