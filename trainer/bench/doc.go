// Package bench measures what fused kernels are worth: the same model, weights and
// batches, trained with different selections of kernels, in one run.
//
// Machines drift: they warm up, and others use them too. So the variants take turns,
// step by step, and a variant is compared with the first one round by round; the
// result is the median of those ratios with their spread, whichever side of 1 it is on.
package bench
