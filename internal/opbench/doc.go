// Package opbench measures kernels one call at a time, forward and backward, over a range
// of shapes, and what it costs that a kernel runs in a process of its own.
//
// Every measurement has two sides: the kernel of a plugin, called across the boundary
// between processes, and, where this program has it too, the same kernel linked in. Both
// work on the same tensors: inputs in memory that the plugin reads without a copy, outputs
// in the memory that the plugin writes. They alternate within one run, so that whatever
// else the machine does falls on both, and the figures are medians with percentiles.
//
// Rates count each input once and each output once, and of the arithmetic only the
// matrix products. The time that the machine's ceilings allow for that, over the time
// taken, is the percentage of the ceiling. It may pass 100 where tensors stay in a cache,
// which the ceiling of memory does not hold for, and with factors of fewer bits, for which
// that of arithmetic does not, which is measured in float32.
package opbench
