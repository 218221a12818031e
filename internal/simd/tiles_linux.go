//go:build amd64 && !noasm

package simd

import "syscall"

// allowTiles asks Linux for the use of tiles, which it grants to a process once and for all: from then on it
// keeps 8 KiB more for each thread that uses them, and on the stack of a signal that
// comes meanwhile, of which Go has 32. It refuses where it does not support them, which
// includes that the processor's XCR0 does not enable them, and where a thread has a stack for
// signals that is too small.
//
// A goroutine is not moved to another thread while it runs assembly, and a routine that
// uses tiles sets and releases them itself, so that nothing of theirs outlives it.
func allowTiles() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM
	_, _, err := syscall.Syscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return err == 0
}
