// Package blas loads the machine's own BLAS while the program runs: without cgo, without anything
// to link, and without a word on what there is before it is looked for. Of the library it uses one
// routine, sgemm, by its Fortran interface, which all of them have, and the calls by which it is
// asked for its version and told its number of threads.
package blas

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/seed98097648/tune/core/vector"
)

// Library is a BLAS in this process. It stays until the process ends.
type Library struct {
	Name    string // such as "OpenBLAS"; "BLAS" for one that does not say
	Version string // in the words of the library, empty if it has none
	Path    string // what was loaded
	Wide    bool   // its integers have 64 bits (ILP64), not 32 (LP64)

	sgemm      uintptr
	setThreads func(n int) // nil for a library without threads, or without a call for them
}

// String describes the library in a line.
func (l *Library) String() string {
	s, width := l.Name, "LP64"
	if l.Version != "" {
		s += " " + l.Version
	}
	if l.Wide {
		width = "ILP64"
	}
	return fmt.Sprintf("%s, %s, %s", s, width, l.Path)
}

// identify asks a library that has sgemm who it is.
func identify(handle uintptr, path string) (*Library, error) {
	l := &Library{Name: "BLAS", Path: path, sgemm: symbol(handle, "sgemm_", "sgemm_64_", "sgemm64_")}
	if l.sgemm == 0 {
		return nil, fmt.Errorf("%s has no sgemm_: it is no BLAS", path)
	}
	if symbol(handle, "MKL_Get_Version_String") != 0 { // before its first call
		if err := layers(handle, path); err != nil {
			return nil, err
		}
	}
	if copies := symbol(handle, "scopy_", "scopy_64_", "scopy64_"); copies != 0 {
		l.Wide = wide(copies)
	}
	setter := func(names ...string) func(n int) {
		f := symbol(handle, names...)
		if f == 0 {
			return nil
		}
		return func(n int) { purego.SyscallN(f, uintptr(n)) }
	}
	switch {
	case symbol(handle, "openblas_get_config", "openblas_get_config64_") != 0:
		l.Name, l.Version = "OpenBLAS", trimName(text(symbol(handle, "openblas_get_config", "openblas_get_config64_")))
		// One that was built without threads has the call, too, and may not be called by several at once.
		l.setThreads = setter("openblas_set_num_threads", "openblas_set_num_threads64_")
	case symbol(handle, "MKL_Get_Version_String") != 0:
		l.Name, l.Version = "MKL", mklVersion(symbol(handle, "MKL_Get_Version_String"))
		l.setThreads = setter("MKL_Set_Num_Threads")
	case symbol(handle, "bli_info_get_version_str") != 0:
		l.Name, l.Version = "BLIS", text(symbol(handle, "bli_info_get_version_str"))
		l.setThreads = setter("bli_thread_set_num_threads")
	case isAccelerate(path):
		// It has threads, for which the only word is a variable of the environment.
		l.Name, l.setThreads = "Accelerate", func(int) {}
	}
	return l, nil
}

// wide finds the width of a library's integers: as 32 bits this number of elements to copy is 1,
// as 64 bits it is negative, of which scopy copies none.
func wide(scopy uintptr) bool {
	n, one := int64(-1<<32+1), int64(1)
	from, to := float32(1), float32(0)
	purego.SyscallN(scopy, uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&one)),
		uintptr(unsafe.Pointer(&to)), uintptr(unsafe.Pointer(&one)))
	runtime.KeepAlive(&n)
	return to == 0
}

// text calls a function that returns a C string.
func text(f uintptr) string {
	p, _, _ := purego.SyscallN(f)
	return goString(p)
}

func goString(p uintptr) string {
	if p == 0 {
		return ""
	}
	var b []byte
	for at := *(*unsafe.Pointer)(unsafe.Pointer(&p)); ; at = unsafe.Add(at, 1) {
		c := *(*byte)(at)
		if c == 0 || len(b) == 512 {
			return string(b)
		}
		b = append(b, c)
	}
}

func mklVersion(f uintptr) string {
	buf := make([]byte, 256)
	purego.SyscallN(f, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	return trimName(goString(uintptr(unsafe.Pointer(&buf[0]))))
}

// Multiply computes products one after the other, as vector.Multiply does: each over all the
// threads that this process may use, by the library's own or, if it has none, in pieces of rows.
func (l *Library) Multiply(products ...vector.Product) {
	if l.setThreads != nil {
		l.setThreads(vector.Threads())
	}
	for _, p := range products {
		l.multiply(p)
	}
}
