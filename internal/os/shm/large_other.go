//go:build !linux

package shm

// Settle is for Linux.
func Settle() {}
