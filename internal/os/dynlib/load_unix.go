//go:build unix

package dynlib

import (
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

func load(path string) (uintptr, error) {
	defer toStandardError()()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// output is held while standard output is another: two that change it at once would not put it back.
var output sync.Mutex

// toStandardError has what libraries print while they are loaded go there, until the function that it returns is
// called: a host takes the first line that a plugin prints for its handshake.
func toStandardError() (undo func()) {
	output.Lock()
	const stdout, stderr, above = 1, 2, 10
	kept, err := unix.FcntlInt(stdout, unix.F_DUPFD_CLOEXEC, above)
	if err != nil { // there is no standard output
		return output.Unlock
	}
	_ = unix.Dup2(stderr, stdout)
	return func() {
		_, _ = unix.Dup2(kept, stdout), unix.Close(kept)
		output.Unlock()
	}
}

func symbol(handle uintptr, name string) uintptr {
	at, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return at
}

// fileOf returns the file that the code at an address was loaded from, "" if the system does not say.
func fileOf(at uintptr) string {
	dladdr, err := purego.Dlsym(purego.RTLD_DEFAULT, "dladdr")
	if err != nil {
		return ""
	}
	var info struct{ file, base, name, address uintptr } // Dl_info
	if found, _, _ := purego.SyscallN(dladdr, at, uintptr(unsafe.Pointer(&info))); int32(found) == 0 {
		return ""
	}
	return Text(info.file)
}

// Provide loads a library, and lets those after it find what it has.
func Provide(path string) error {
	defer toStandardError()()
	_, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	return err
}
