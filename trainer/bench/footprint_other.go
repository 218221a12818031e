//go:build !linux

package bench

// footprint returns 0: only Linux tells how much memory processes share.
func footprint() int64 { return 0 }
