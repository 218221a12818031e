// Package blaslinear is the kernels of the plugin blas_linear: linear layers, experts and the head with its loss,
// which are those of the project's other plugins with the products of a BLAS, and attention.
package blaslinear

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/plugins/blas_linear/blas"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/linear"
	"github.com/seed98097648/tune/plugins/npu_fused_linear_cross_entropy/linearcrossentropy"
	"github.com/seed98097648/tune/plugins/npu_fused_moe/moe"
)

// Name and Version are the plugin's, and of the kernels when they are linked into a program.
const (
	Name    = "blas_linear"
	Version = "0.2.0"
)

// Kernels returns kernels that compute with the library.
func Kernels(l *blas.Library) []core.Kernel {
	var all []core.Kernel
	for _, k := range []core.Kernel{
		&linear.Kernel{Multiply: l.Multiply},
		&linearcrossentropy.Kernel{Multiply: l.Multiply},
		&moe.Kernel{Multiply: l.Multiply},
		&attention{multiply: l.Multiply},
	} {
		info := k.Info()
		info.Name, info.Version, info.DTypes, info.Rounds = Name, Version, []core.DType{core.Float32}, nil
		info.Summary, info.ByThreads = info.Summary+", by "+l.String(), l.ByThreads
		all = append(all, kernel{k, info})
	}
	return all
}

// kernel is another one with its products by a library, which multiplies nothing but float32.
type kernel struct {
	core.Kernel
	info core.Info
}

// Info implements core.Kernel.
func (k kernel) Info() core.Info { return k.info }

// Supports implements core.Kernel: everything in float32.
func (k kernel) Supports(f core.Facts) error { return k.info.Supports(f) }
