// Package gate is the kernel of the plugin npu_fused_moe for the op moe_gate. For each token,
// with E experts in G groups, K experts per token, and s the scale:
//
//	score = softmax or sigmoid of the logits
//	choice = score + bias; 0 outside the groups whose two best choices have the largest sums
//	ids = where the K largest choices are, largest first, of equal ones the first
//	p = score[ids];  q = p/(sum(p) + 1e-20), or p;  weights = s*q
//
//	logits and dlogits [T,E] in storage precision; bias [E] float32
//	weights and dweights [T,K] float32; ids [T,K] int32
//	saved: nothing but the ids
package gate

import "github.com/seed98097648/tune/core"

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_moe"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// Kernel implements core.Kernel; its zero value is ready.
type Kernel struct{}

// Info implements core.Kernel.
func (*Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.MoEGate, Version: Version,
		Summary: "softmax or sigmoid, groups, top-k and weights in one pass over the logits", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: all valid facts in float32, bfloat16 and float16.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
