// Package onednnlinear is the kernel of the plugin onednn_linear, for the op linear with products in
// bfloat16: that of npu_fused_linear with the products of oneDNN.
package onednnlinear

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/linear"
	"github.com/seed98097648/tune/plugins/onednn_linear/onednn"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "onednn_linear"
	Version = "0.1.0"
)

// Kernel implements core.Kernel. It keeps its scratch memory from call to call.
type Kernel struct {
	linear.Kernel
	library *onednn.Library
}

// New returns a kernel that computes with the library. Where the processor has no instructions for bfloat16, it is an
// error: the library would do without, and be slower than float32.
func New(l *onednn.Library) (*Kernel, error) {
	if !l.BFloat16() {
		return nil, fmt.Errorf("%s: without AVX512_BF16 or AMX, products in bfloat16 are slower than in float32", l)
	}
	return &Kernel{linear.Kernel{Multiply: l.Multiply}, l}, nil
}

// Info implements core.Kernel. On AMX the library shares out sums among its threads.
func (k *Kernel) Info() core.Info {
	i := k.Kernel.Info()
	i.Name, i.Version, i.DTypes, i.ByThreads = Name, Version, []core.DType{core.Float32}, true
	i.Summary += ", products in bfloat16 by " + k.library.String()
	return i
}

// Supports implements core.Kernel: everything in float32 with products in bfloat16.
func (k *Kernel) Supports(f core.Facts) error {
	if err := k.Info().Supports(f); err != nil || f.Products == core.BFloat16 {
		return err
	}
	return fmt.Errorf("%s: %w: products of factors as they are stored; it rounds them to bfloat16",
		Name, core.ErrNotSupported)
}
