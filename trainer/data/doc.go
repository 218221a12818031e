// Package data holds tokenised examples and deals them to a training loop in batches.
//
// The way of the data: package records reads rows of files, package format makes texts
// and conversations of them, package corpus tokenises those into a Store; here a Packed
// lays the examples of a Store into rows of equal length, and a Loader (training) or
// Stream (evaluation) stacks rows. Pack does the same for sequences in memory. HoldOut
// splits examples or rows in two.
//
// Everything is deterministic: the same files, seed and sizes give the same batches
// on every machine.
package data
