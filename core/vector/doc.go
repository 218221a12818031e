// Package vector is what fast kernels are made of: loops over vectors, matrix products,
// conversions of half precision, and the splitting of work over threads. The kernels of
// this project stand on it alone, and "tune kernels new --fast" writes one that does.
//
//	work over threads  Parallel, Threads, Grow
//	storage            Load, Store, Round, Wide, Narrow
//	layers of int8     W8A8, MultiplyW8A8
//	element by element Add, Mul, MulAdd, Scale, Axpy, Sigmoid, SoftmaxGrad
//	sums               Dot, Dot3, SumSquares, Max, ExpSum
//	rows of layers     Stream and its methods, StreamFor
//	matrix products    Multiply with Product, Matrix and MatrixOf; FewRows
//	on tiles           HasTiles, MultiplyTiles with TileProduct; PackLeft, PackRight, Kept
//	in blocks          Panels, Strip, PanelRows, PanelStart, PanelEnd, Prefetch
//
// # Data
//
// Arithmetic is on float32. Load widens what is stored as bfloat16 or float16, a row or a
// part of one at a time, and Store rounds it, to nearest even. Slices may start anywhere;
// those that start on a boundary of 64 bytes are a little faster. Where a comment says
// that dst may be an operand, it may be exactly that slice: slices that overlap in part
// give anything. Empty slices are fine everywhere.
//
// # Instructions
//
// On amd64 it runs in assembly, with AVX-512 or with AVX2 and FMA, whichever the processor
// has, and on arm64 with NEON; elsewhere, and on older processors, in plain Go. The
// choice is made when the program starts.
//
// # Bits
//
// Nothing depends on the number of threads: the terms of each sum are added in an order
// that the sizes fix. As long as a kernel splits its own sums by sizes alone, the same
// call has the same bits on any number of threads, as the contract demands.
//
// These have the same bits on every machine, each of their operations being rounded in the
// order of their comments: Load, Store, Round, Narrow, Add, Mul, MulAdd, Scale, Axpy, SoftmaxGrad,
// and the methods ScaleMul, NormGrad, RotateHeads and RotatePairs of Stream. The others,
// which are products of matrices, sums, and all that stands on an exponential, fuse
// operations where the processor can and add in an order that suits its vectors: they
// have the same bits in one program on one machine, and agree within rounding elsewhere.
//
// # Threads
//
// Parallel and Multiply spread over the threads that the process may use, which the host
// sets; everything else runs in the goroutine that calls it. All may be called from
// several goroutines at once.
//
// # Mistakes
//
// A slice that is shorter than its sizes say, or of another length than its neighbours,
// panics: that is a mistake of the programmer and never one of input. What a call's
// tensors are, core.Run has checked before a kernel sees them.
package vector
