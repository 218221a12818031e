// Package generate lets a model go on where a text stops.
//
// A [Session] holds what the model has read: it feeds tokens to a graph that computes
// them alone and attends over a cache of the keys and values of those before. A prompt is
// read in pieces, and each new token by itself, with the same modules and the same
// kernels as in training. A [Sampler] chooses the next token from the logits; [Run] puts
// both together and hands the text on as it comes. An [Engine] does so for many texts at
// the same time, whoever asks for them.
package generate
