// Package trainer fine-tunes a model: it wires data, model, kernels and optimizer
// together, runs the loop, and saves a model folder.
package trainer
