// Package self says which program is running.
package self

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
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
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
})

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
