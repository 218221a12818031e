// Package self says which program is running.
package self

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync"

	"github.com/seed98097648/tune/internal/os/checksum"
)

// Checksum returns the SHA-256 of the program's file, hexadecimal, or "" if that cannot be
// read. What a program has found out about others depends on the program too, and nobody
// has to remember to count a version up when its rules change. The file is read once.
var Checksum = sync.OnceValue(func() string {
	f, err := open()
	if err != nil {
		return ""
	}
	defer f.Close()
	sum, err := checksum.Of(f)
	if err != nil {
		return ""
	}
	return sum
})

// Noted is Checksum, but for what an earlier process has noted.
func Noted(notes checksum.Notes) string {
	f, err := open()
	if err != nil {
		return ""
	}
	defer f.Close()
	checksum.Hold(f)
	state, known := checksum.StateOf(f)
	if !known {
		return Checksum()
	}
	sum := notes.Load(state)
	if sum == "" {
		sum = Checksum()
		if after, still := checksum.StateOf(f); still && after == state && sum != "" {
			notes.Store(state, sum)
		}
	}
	return sum
}

// Is reports whether a file is that of the program that runs, by whatever path: nobody can write to it meanwhile, so
// that its checksum stays what it is. Where the system cannot tell, it is not.
func Is(file fs.FileInfo) bool {
	if runtime.GOOS != "linux" {
		return false
	}
	own, err := os.Stat("/proc/self/exe")
	return err == nil && os.SameFile(own, file)
}

// open opens the file that runs, whatever lies at its path by now where the system can tell.
func open() (*os.File, error) {
	if runtime.GOOS == "linux" {
		if f, err := os.Open("/proc/self/exe"); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}
