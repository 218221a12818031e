//go:build noasm || (!amd64 && !arm64)

package simd

// int8Assembly returns nothing: there is plain Go alone.
func int8Assembly() []*int8Kernel { return nil }
