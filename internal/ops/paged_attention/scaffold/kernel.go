// Package kernel is a kernel plugin of tune for the op paged_attention. T tokens, H heads of q, KV heads of k and v,
// d head_dim, P blocks of the caches, B sequences, M places in a row of block_tables. Token j of sequence b lies in
// block block_tables[b, j/block_size] of the caches, in the place j%block_size. The tokens of q are the last
// query_lens[b] of the seq_lens[b] tokens of each sequence, one sequence after the other; the one at position p sees
// itself and those before it, or the last window of these:
//
//	s_j = scale * q . k_j;  y = sum of softmax(s)_j * v_j
//
//	q, y [T,H,d], k_cache, v_cache [P,block_size,KV,d], block_tables int32 [B,M], query_lens, seq_lens int32 [B]
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
	return core.Info{Name: name, Op: core.PagedAttention, Version: version,
		Summary: "paged_attention in plain Go", DTypes: []core.DType{core.Float32}}
}

// Supports decides by facts alone: any size, with or without a window.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
