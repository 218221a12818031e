// Package bench measures what fused kernels are worth: the same model, weights and
// batches, trained with different selections of kernels, in one run.
//
// Machines drift: they warm up, and others use them too. So the variants take turns,
// step by step, each after a step that does not count, since what lies in the caches then
// is another's. A variant is compared with the first one round by round; the result is
// the median of those ratios with an interval of confidence, whichever side of 1 it is on.
//
// A time alone does not say whether it could be shorter. So every operation is set
// against the machine's own limits: from its sizes follow the bytes that it has to move
// and the operations that it has to do, and from the machine's ceilings, measured in the
// same run, the least time that these take.
//
// A Result can be printed as a table, in the Go benchmark format and as a page with
// charts, and it can be marshalled to JSON.
package bench
