package transport

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/seed98097648/tune/core"
)

// harmWhenAsked misbehaves when a kernel is asked about facts of certain sizes.
func harmWhenAsked(f core.Facts) error {
	switch f.Dim {
	case 13:
		return fmt.Errorf("%w: dim 13 brings bad luck", core.ErrNotSupported)
	case 14:
		if times("asked") > 1 {
			return fmt.Errorf("%w: I have changed my mind", core.ErrNotSupported)
		}
	case 15:
		times("asked")
		os.Exit(7)
	case 16:
		times("asked")
		select {}
	}
	return nil
}

// everySecond does something at every second call of the function, in all processes
// together. A plugin with one kernel is asked for its Info by Describe, then by Bind.
func everySecond(do func()) func() {
	return func() {
		if times("info")%2 == 0 {
			do()
		}
	}
}

// flood is how much a plugin prints, in bytes.
const flood = 8 << 20

// harm does the harm that is named.
func harm(what string) {
	switch what {
	case "flood":
		line := bytes.Repeat([]byte("all work and no play "), flood/21)
		for _, f := range []*os.File{os.Stdout, os.Stderr, os.NewFile(uintptr(syscall.Stdout), "raw"),
			os.NewFile(uintptr(syscall.Stderr), "raw")} {
			if _, err := f.Write(line); err != nil { // without an end of line
				panic(err)
			}
		}
	case "fill memory once":
		if times(what) == 1 {
			fillMemory()
		}
	case "leave a child":
		if times(what) == 1 {
			startChild(false)
			os.Exit(7)
		}
	case "leave a daemon":
		if times(what) == 1 {
			startChild(true)
			os.Exit(7)
		}
	case "spin":
		times(what)
		spin()
	case "spin once":
		if times(what) == 1 {
			spin()
		}
	case "have a child":
		startChild(false)
	}
}

// spin keeps a core busy for ever.
func spin() {
	for i := 0; ; i++ {
	}
}

// endless prints without ever ending the line: megabytes in a second, which leaves the processors to others.
func endless(f *os.File) {
	for some := bytes.Repeat([]byte("x"), 1<<16); ; time.Sleep(5 * time.Millisecond) {
		if _, err := f.Write(some); err != nil {
			time.Sleep(time.Hour)
		}
	}
}
