// Package kernel is a kernel plugin of tune for the op moe_gate. T tokens, E experts, K experts
// per token:
//
//	score    = softmax(logits), or 1/(1+exp(-logits)) of each
//	choice   = score + bias; 0 outside the top_groups groups whose two best choices
//	           have the largest sums
//	ids      = where the K largest choices are, largest first
//	weight_k = scale * score[ids_k], with normalize divided by their sum + 1e-20
//
//	logits [T,E], bias [E], routing_weights, expert_ids [T,K]; the ids are saved
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
	return core.Info{Name: name, Op: core.MoEGate, Version: version,
		Summary: "moe_gate in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size, both scorings, with and without bias and groups.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
