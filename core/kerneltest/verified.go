package kerneltest

import (
	"context"
	"sync"

	"github.com/seed98097648/tune/core"
)

// Verified returns k with the ability to verify itself, core.Verifier, by way of Verify:
// a plan then compares k with the reference before it places it. Register kernels that
// are linked into the program like this, as nothing else checks them:
//
//	err := registry.Register(kerneltest.Verified(k))
//
// Models that run at the same time can share it: k gets one call after the other, as a plugin does.
//
// A kernel that is a core.Verifier already is returned as it is. What else k can do,
// core.OutputMemory and core.HealthReporter, the result can too.
func Verified(k core.Kernel) core.Kernel {
	if _, ok := k.(core.Verifier); ok {
		return k
	}
	v := &verified{Kernel: k}
	memory, hasMemory := k.(core.OutputMemory)
	health, hasHealth := k.(core.HealthReporter)
	switch {
	case hasMemory && hasHealth:
		return &struct {
			*verified
			memoryOwner
			core.HealthReporter
		}{v, memory, health}
	case hasMemory:
		return &struct {
			*verified
			memoryOwner
		}{v, memory}
	case hasHealth:
		return &struct {
			*verified
			core.HealthReporter
		}{v, health}
	}
	return v
}

// memoryOwner is core.OutputMemory under a name that, as an embedded field's, does not
// hide the method.
type memoryOwner = core.OutputMemory

// verified is a kernel that lacks verification, and somebody who sees to it that it gets one call at a time.
type verified struct {
	core.Kernel
	mu sync.Mutex
}

var _ core.Verifier = (*verified)(nil)

// Verify implements core.Verifier.
func (v *verified) Verify(ctx context.Context, f core.Facts) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return Verify(ctx, v.Kernel, f)
}

// Forward implements core.Kernel.
func (v *verified) Forward(ctx context.Context, c *core.Call) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.Kernel.Forward(ctx, c)
}

// Backward implements core.Kernel.
func (v *verified) Backward(ctx context.Context, c *core.Call) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.Kernel.Backward(ctx, c)
}
