// Npu_fused_rope is a kernel plugin for the op rope. T tokens, P positions, H heads,
// d head_dim, r rotary_dim:
//
//	a' = a*cos - b*sin      for each pair (a, b) of a head, by the angle of the pair
//	b' = b*cos + a*sin      at the token's position
//
//	q, q_out [T,H,d] and k, k_out [T,KV,d] in storage precision, and their gradients
//	cos, sin [P,r/2] float32; positions [T] int32
//	pairs: half (i, i+r/2) or interleaved (2i, 2i+1); elements from r on stay
//	saved: nothing
//
// Each token of q and k is read once and written once, with float32 arithmetic in
// between.
package main

import "github.com/seed98097648/tune/core/transport"

func main() { transport.Serve(name, version, kernel{}) }
