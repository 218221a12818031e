// Package nn holds the modules that models are made of.
//
// A module owns its parameters, records its forward pass in an autograd graph, and, if
// it uses an op of the contract, declares a site there. The plain forward is composed
// of small operations, as an eager framework would do it; that is what fused kernels
// are compared with. A site that holds a kernel records one fused operation instead.
// Parameters are the same tensors under the same names either way.
//
// Shapes in comments: B rows of a batch, S positions of a row, T = B*S tokens, D hidden
// size, H heads, KV heads of keys and values, C head size, I intermediate size, E experts,
// K experts per token, N = T*K assignments, V vocabulary.
package nn
