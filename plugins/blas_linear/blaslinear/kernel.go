// Package blaslinear is the kernel of the plugin blas_linear, for the op linear: that of
// npu_fused_linear with the products of a BLAS.
package blaslinear

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/plugins/blas_linear/blas"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/linear"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "blas_linear"
	Version = "0.1.0"
)

// Kernel implements core.Kernel. It keeps its scratch memory from call to call.
type Kernel struct {
	linear.Kernel
	library *blas.Library
}

// New returns a kernel that computes with the library.
func New(l *blas.Library) *Kernel { return &Kernel{linear.Kernel{Multiply: l.Multiply}, l} }

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.Linear, Version: Version,
		Summary: "a linear layer by " + k.library.String(), DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports implements core.Kernel: everything in float32, which is all that a BLAS multiplies.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
