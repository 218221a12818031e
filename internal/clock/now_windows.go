package clock

import (
	"math/bits"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32 = windows.NewLazySystemDLL("kernel32.dll")
	counter  = kernel32.NewProc("QueryPerformanceCounter")
	second   = query(kernel32.NewProc("QueryPerformanceFrequency")) // in ticks of the counter
)

// query asks for a number, which these two always know (since Windows XP).
func query(f *windows.LazyProc) (n uint64) {
	_, _, _ = f.Call(uintptr(unsafe.Pointer(&n)))
	return n
}

// Now returns this moment.
func Now() Moment {
	high, low := bits.Mul64(query(counter), uint64(time.Second))
	ns, _ := bits.Div64(high%second, low, second)
	return Moment(ns)
}
