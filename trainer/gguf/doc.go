// Package gguf writes the models and adapters of Hugging Face folders as GGUF files, which
// llama.cpp and the programs around it read.
//
// A GGUF file (version 3, little-endian) is "GGUF", the version, the number of tensors and
// of keys; the keys, each with the type and the value; of each tensor its name, shape (the
// fastest dimension first), type and place; and then the data, each tensor from a multiple of
// 32 bytes on. The format is described at
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
//
// What llama.cpp would compute otherwise than transformers is an error that names the field,
// and what the format cannot say but for which there is a way round is a note. Weights are
// read, converted and written tensor by tensor.
package gguf
