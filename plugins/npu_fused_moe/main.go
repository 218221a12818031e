// Npu_fused_moe is a kernel plugin for the op moe_experts. T tokens, K experts per
// token, E experts, D dim, I intermediate:
//
//	g, u = gate[e] x_t, up[e] x_t    for each assignment of token t to expert e
//	h = g*s(g)*u, s(g) = 1/(1+exp(-g))
//	y_t = sum over the token's experts of p * down[e] h, p the routing weight
//
//	x, y, dy, dx [T,D] in storage precision; expert_ids [T,K] int32
//	routing_weights, drouting_weights [T,K] float32
//	packed: gate_up [E,2I,D], the gate first, and down [E,D,I]
//	per_expert: gate and up [I,D], down [D,I], E of each
//	weights in storage precision, their gradients in float32
//	saved: gate_up_out [T,K,2I], g and u of the assignments sorted by expert, stably
//
// Assignments are sorted by expert once. Then the products of all experts run together
// over all cores, in blocks of rows of bounded size, reading tokens where they are.
package main

import "github.com/seed98097648/tune/core/transport"

func main() { transport.Serve(name, version, new(kernel)) }
