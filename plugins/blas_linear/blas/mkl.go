package blas

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed98097648/tune/internal/os/dynlib"
)

// Threading layers of MKL, by the numbers of mkl_service.h, with the libraries that each needs. What is missing
// would end the process at the first call, so that it is looked for before.
var mklLayers = []struct {
	name    string
	number  uintptr
	library string
	runtime []string // of these, one
}{
	{"INTEL", 0, "libmkl_intel_thread", []string{"libiomp5.so", "libomp.so.5"}},
	{"GNU", 3, "libmkl_gnu_thread", []string{"libgomp.so.1"}},
	{"TBB", 4, "libmkl_tbb_thread", []string{"libtbb.so.12", "libtbb.so.2"}},
	{"SEQUENTIAL", 1, "libmkl_sequential", nil},
}

// layers chooses integers of 32 bits, which all builds of MKL have, and the first threading layer that can be loaded,
// unless the environment has chosen.
func layers(lib *dynlib.Library) error {
	set := func(name string, to uintptr) {
		if f := lib.Func(name); f != 0 && os.Getenv(strings.ToUpper(strings.ReplaceAll(name, "_Set", ""))) == "" {
			f.Call(to)
		}
	}
	set("MKL_Set_Interface_Layer", 0)
	if os.Getenv("MKL_THREADING_LAYER") != "" {
		return nil
	}
	_, suffix, _ := strings.Cut(filepath.Base(lib.Path), ".so") // the files of one MKL end alike
	part := func(library string) bool {
		name := library + ".so" + suffix
		return loadable(filepath.Join(filepath.Dir(lib.Path), name), name)
	}
	if !part("libmkl_core") {
		return fmt.Errorf("%s: libmkl_core cannot be loaded: put it beside it", lib.Path)
	}
	for _, l := range mklLayers {
		if (l.runtime == nil || loadable(l.runtime...)) && part(l.library) {
			set("MKL_Set_Threading_Layer", l.number)
			return nil
		}
	}
	return fmt.Errorf("%s: none of MKL's threading layers can be loaded: put one beside it, such as "+
		"libmkl_gnu_thread and libgomp", lib.Path)
}

// loadable reports whether one of the libraries can be loaded.
func loadable(names ...string) bool {
	for _, name := range names {
		if dynlib.Provide(name) == nil {
			return true
		}
	}
	return false
}
