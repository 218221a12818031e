//go:build !amd64 || noasm

package simd

// tiles says that there are none.
func tiles() *tileUnit { return nil }
