// Package autograd is the one seam between gorgonia and the kernels.
//
// A [Graph] records operations as nodes of a gorgonia expression graph; gorgonia.Grad
// differentiates it symbolically, and calls back for the gradient of each operation.
// Compile turns both passes into a [Program]: a tape of instructions over buffers that
// this package owns. gorgonia never runs anything and never allocates a tensor: its own
// element-wise operations are single-threaded, its machine allocates on every run, and
// its compiler is quadratic in the number of nodes.
//
// One backward instruction computes every gradient of an operation; "pick" nodes hand
// them out, each a buffer of its own, without a copy. Where gradients
// meet at a fan-out, the first is written and the operations of the others add theirs to
// it, if they can; one n-ary sum adds the rest. A loss may have computed its gradients
// together with its value, since what reaches it is always 1.
//
// Buffers are planned before the first run: an instruction's outputs live from the
// instruction that writes them to the last that reads them, and buffers whose lives do
// not overlap share memory. A buffer lies in the memory that its operation asks for,
// which for a kernel in a plugin is the only memory that the plugin may write; every
// other buffer lies in the graph's memory. Both are shared with the plugins, so that a
// kernel is called with pointers and nothing is copied.
//
// Values are float32, except for integer tables that no gradient passes through.
package autograd
