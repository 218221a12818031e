// Package rmsnorm is the kernel of the plugin npu_fused_rmsnorm, for the ops rms_norm and
// add_rms_norm. T tokens, D dim:
//
//	h = x + residual                   add_rms_norm only, rounded to storage; then x is h
//	rstd = 1/sqrt(mean(x^2) + eps)
//	n = x*rstd                         rounded to storage if the cast comes before the weight
//	y = n*(offset + weight)
//
//	x, residual, y, h and their gradients [T,D] in storage precision; weight [D]; dweight [D] float32
//	saved: rstd [T] float32
//
// Each row is read once and written once, with float32 arithmetic in between.
package rmsnorm

import "github.com/seed98097648/tune/core"

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_rmsnorm"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// Kernel implements core.Kernel for rms_norm or, with Add, for add_rms_norm. It keeps its
// scratch memory from call to call.
type Kernel struct {
	Add  bool
	sums []float32 // of dweight, a row for each block of tokens
	rows []float32 // what a row of dx was before dh, of each range of blocks
}

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	i := core.Info{Name: Name, Op: core.RMSNorm, Version: Version,
		Summary: "root mean square norm, one pass over memory", DTypes: dtypes, Backward: true}
	if k.Add {
		i.Op, i.Summary = core.AddRMSNorm, "residual added and root mean square norm, one pass over memory"
	}
	return i
}

// Supports implements core.Kernel: all valid facts in float32, bfloat16 and float16.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
