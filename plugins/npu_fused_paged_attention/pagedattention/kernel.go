// Package pagedattention is the kernel of the plugin npu_fused_paged_attention for the op paged_attention. T
// tokens, H heads of q in groups that share one of KV heads of the cache, C head_dim; the tokens of q are the
// last query_lens[b] of the seq_lens[b] tokens of each sequence, one sequence after the other, and one at
// position p sees the tokens max(0, p+1-window) <= j <= p of its sequence, of which token j lies in block
// block_tables[b, j/block_size]:
//
//	s_j = scale * q . k_j;  y = sum of softmax(s)_j * v_j
//
//	q, y [T,H,C], k_cache, v_cache [P,block_size,KV,C] in storage precision
//	block_tables int32 [B,M], query_lens, seq_lens int32 [B]
//
// A single token reads each key and each value once for all heads of a group, where they lie, in parts of a
// fixed number of tokens of the context that threads share (as in Dao et al., Flash-Decoding, 2023). Several
// tokens of a sequence are a tile, for which keys and values are packed once.
//
// The bits of a token's y depend neither on the other sequences of the call nor on the size of blocks.
package pagedattention

import "github.com/seed98097648/tune/core"

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_paged_attention"
	Version = "0.1.0"
)

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory from call to call: for
// each thread a few times a part of a head's context, and what the parts of single tokens have come to.
type Kernel struct {
	core.ForwardOnly
	workers []*worker
	tasks   []task
	sums    []float32 // of parts, until they are joined
	parts   []part
}

// Info implements core.Kernel.
func (*Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.PagedAttention, Version: Version,
		Summary: "attention over the blocks of a cache, each key and value read once for all heads of a group",
		DTypes:  []core.DType{core.Float32, core.BFloat16, core.Float16}}
}

// Supports implements core.Kernel: any heads, blocks and windows, in float32, bfloat16 and float16.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
