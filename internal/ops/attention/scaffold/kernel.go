// Package kernel is a kernel plugin of tune for the op attention. T tokens, H and KV heads, d head_dim.
// For each token t and head h of q, its key head g = h/(H/KV) and the keys j of the range
// keys[t] = [first, end):
//
//	s_j = q[t,h] . k[j,g] / sqrt(d)
//	lse = log(sum over j of exp(s_j))
//	y   = sum over j of exp(s_j - lse) * v[j,g]
//
//	q, y [T,H,d], k, v [T,KV,d], keys [T,2], lse [T,H]; y and lse are saved. A query
//	without keys has y = 0 and lse = 0
package kernel

import "github.com/seed98097648/tune/core"

const (
	name    = "my_kernel" // what --kernels takes
	version = "0.1.0"
)

// kernel implements core.Kernel.
type kernel struct{}

var _ core.Kernel = kernel{}

// Info says what the kernel is.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.Attention, Version: version,
		Summary: "attention in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size, any grouping of heads.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
