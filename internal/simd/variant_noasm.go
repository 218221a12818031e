//go:build (!amd64 && !arm64) || noasm

package simd

// assembly returns the variants in assembly: none on this machine.
func assembly() []*variant { return nil }
