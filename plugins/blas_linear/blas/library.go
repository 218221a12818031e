// Package blas loads the machine's own BLAS while the program runs. Of the library it uses one routine,
// sgemm, by its Fortran interface, which all of them have, and the calls by which it is asked for its
// version and told its number of threads.
package blas

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/os/dynlib"
)

// Library is a BLAS in this process. It stays until the process ends.
type Library struct {
	Name    string // such as "OpenBLAS"; "BLAS" for one that does not say
	Version string // in the words of the library, empty if it has none
	Path    string // what was loaded
	Mark    string // of the file that sgemm came from; see dynlib.Func.Mark
	Wide    bool   // its integers have 64 bits (ILP64), not 32 (LP64)
	// ByThreads says that it may share out sums among its threads, so that bits depend on their number.
	ByThreads bool

	sgemm      dynlib.Func
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
	return dynlib.Describe(s+", "+width, l.Mark, l.Path, 140)
}

// identify asks a library that has sgemm who it is.
func identify(lib *dynlib.Library) (*Library, error) {
	l := &Library{Name: "BLAS", Path: lib.Path, sgemm: lib.Func("sgemm_", "sgemm_64_", "sgemm64_")}
	if l.sgemm == 0 {
		return nil, fmt.Errorf("%s has no sgemm_: it is no BLAS", lib.Path)
	}
	l.Mark = l.sgemm.Mark()
	mkl := lib.Func("MKL_Get_Version_String")
	if mkl != 0 { // before its first call
		if err := layers(lib); err != nil {
			return nil, err
		}
	}
	if copies := lib.Func("scopy_", "scopy_64_", "scopy64_"); copies != 0 {
		l.Wide = wide(copies)
	}
	setter := func(names ...string) func(n int) {
		f := lib.Func(names...)
		if f == 0 {
			return nil
		}
		return func(n int) { f.Call(uintptr(n)) }
	}
	openblas, blis := lib.Func("openblas_get_config", "openblas_get_config64_"), lib.Func("bli_info_get_version_str")
	switch {
	case openblas != 0:
		l.Name, l.Version = "OpenBLAS", trimName(dynlib.Text(openblas.Call()))
		// One that was built without threads has the call, too, and may not be called by several at once.
		l.setThreads = setter("openblas_set_num_threads", "openblas_set_num_threads64_")
		parallel := lib.Func("openblas_get_parallel", "openblas_get_parallel64_")
		l.ByThreads = parallel == 0 || int32(parallel.Call()) != 0
	case mkl != 0:
		l.Name, l.Version = "MKL", mklVersion(mkl)
		l.setThreads = setter("MKL_Set_Num_Threads")
		l.ByThreads = !strings.HasSuffix(strings.ToUpper(os.Getenv("MKL_CBWR")), ",STRICT")
	case blis != 0:
		l.Name, l.Version = "BLIS", dynlib.Text(blis.Call())
		l.setThreads, l.ByThreads = setter("bli_thread_set_num_threads"), true
	case isAccelerate(lib.Path):
		// It has threads, for which the only word is a variable of the environment.
		l.Name, l.setThreads, l.ByThreads = "Accelerate", func(int) {}, true
	}
	return l, nil
}

// wide finds the width of a library's integers: as 32 bits this number of elements to copy is 1,
// as 64 bits it is negative, of which scopy copies none.
func wide(scopy dynlib.Func) bool {
	n, one := int64(-1<<32+1), int64(1)
	from, to := float32(1), float32(0)
	scopy.Call(uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&one)),
		uintptr(unsafe.Pointer(&to)), uintptr(unsafe.Pointer(&one)))
	runtime.KeepAlive(&n)
	return to == 0
}

func mklVersion(f dynlib.Func) string {
	buf := make([]byte, 256)
	f.Call(uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	return trimName(dynlib.Text(uintptr(unsafe.Pointer(&buf[0]))))
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
