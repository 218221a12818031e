//go:build unix && !linux

package shm

// Files are not backed by swap, and not every Unix knows the flag.
const mapNoReserve = 0
