// Npu_fused_swiglu is a kernel plugin for the op swiglu. T tokens, I intermediate:
//
//	y = gate*s*up, s = 1/(1+exp(-gate))
//
//	gate, up, y and their gradients [T,I] in storage precision; in the packed layout
//	gate_up [T,2I], the gate first
//	saved: nothing but the inputs
//
// Each element is read once and written once, with float32 arithmetic in between.
package main

import "github.com/seed98097648/tune/core/transport"

func main() { transport.Serve(name, version, kernel{}) }
