// Package data turns text on disk into the batches that a training loop eats.
//
// The way of the text: ReadDocuments reads files, Tokenize makes token ids of them,
// Pack lays those end to end into rows of equal length, and a Loader (training) or
// Batches (evaluation) stacks rows. HoldOut splits documents or rows in two.
//
// Everything is deterministic: the same files, seed and sizes give the same batches
// on every machine.
package data
