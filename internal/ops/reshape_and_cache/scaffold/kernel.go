// Package kernel is a kernel plugin of tune for the op reshape_and_cache: it stores the keys and values of new tokens
// in the slots of a cache, slot s being place s%block_size of block s/block_size. T tokens, KV heads, d head_dim,
// P blocks:
//
//	k, v [T,KV,d], slots int32 [T], negative for none
//	k_cache, v_cache [P,block_size,KV,d], of which all but those slots stays as it is
package kernel

import "github.com/seed98097648/tune/core"

const (
	name    = "my_kernel" // what --kernels takes
	version = "0.1.0"
)

// kernel implements core.Kernel.
type kernel struct{ core.ForwardOnly }

var _ core.Kernel = kernel{}

// Info says what the kernel is.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.ReshapeAndCache, Version: version,
		Summary: "reshape_and_cache in plain Go", DTypes: []core.DType{core.Float32, core.BFloat16, core.Float16}}
}

// Supports decides by facts alone: any size.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
