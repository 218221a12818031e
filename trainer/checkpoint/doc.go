// Package checkpoint reads and writes model weights in the safetensors format, and
// puts files and folders on disk so that a crash or a full disk never leaves half a
// model behind.
//
// A safetensors file is an 8-byte little-endian length, a JSON header of that length
// and the raw little-endian bytes of the tensors, row-major, in the order of their
// offsets. The format is described at https://huggingface.co/docs/safetensors.
//
// Opening a model costs its header, and each tensor is read when it is asked for.
// Nothing in a file is believed before it is checked, so that a hostile or damaged
// download, or a file that somebody cuts short in the middle, is an error and never a
// crash or a wrong weight.
//
// Writing goes to a temporary name beside the target, reaches the disk, and only
// then takes the target's name.
package checkpoint
