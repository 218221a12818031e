//go:build amd64 && !noasm && !linux

package simd

// allowTiles is not known elsewhere.
func allowTiles() bool { return false }
