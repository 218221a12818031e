// Npu_fused_rmsnorm is a kernel plugin for the op rms_norm. T tokens, D dim:
//
//	rstd = 1/sqrt(mean(x^2) + eps)
//	n = x*rstd                         rounded to storage if the cast comes before the weight
//	y = n*(offset + weight)
//
//	x, y, dy, dx [T,D] in storage precision; weight [D]; dweight [D] float32
//	saved: rstd [T] float32
//
// Each row is read once and written once, with float32 arithmetic in between.
package main

import "github.com/seed98097648/tune/core/transport"

func main() { transport.Serve(name, version, new(kernel)) }
