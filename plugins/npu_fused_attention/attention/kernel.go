// Package attention is the kernel of the plugin npu_fused_attention, for the op
// attention. T tokens, H heads of q in groups that share one of KV heads of k and v, C
// head_dim; query t sees the keys first_t <= j < end_t:
//
//	s_tj = q_t . k_j / sqrt(C)
//	lse_t = log(sum over j of exp(s_tj))
//	y_t = sum over j of exp(s_tj - lse_t) * v_j
//
//	q, y and their gradients [T,H,C], k, v and theirs [T,KV,C] in storage precision
//	keys [T,2] int32: first and end of each query
//	saved: lse [T,H] float32, and y
//
// The scores of all queries are never there at once, as in FlashAttention (Dao et al.,
// 2022): a few queries meet a block of keys at a time, and what they have of y so far
// shrinks when a larger score comes. Backward computes the scores of a block again. What
// they need of k and v is packed once for all queries of a group.
package attention

import "github.com/seed98097648/tune/core"

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_attention"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory
// from call to call: for each thread a few times the keys of one head.
type Kernel struct {
	workers []*worker
	rooms   rooms // for dk and dv of tasks that share a key head
}

// Info implements core.Kernel.
func (*Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.Attention, Version: Version,
		Summary: "softmax(q k^T) v in blocks, without the scores in memory", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: any heads, in float32, bfloat16 and float16.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
