package blas

import (
	"path/filepath"
	"runtime"
	"strings"

	"github.com/seed98097648/tune/internal/os/dynlib"
)

// EnvLibrary names the environment variable that names the library to load: a path, or what the
// system's loader finds by its name.
const EnvLibrary = "TUNE_BLAS"

// candidates are the names of libraries, the fastest first, by the system.
func candidates() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"/System/Library/Frameworks/Accelerate.framework/Accelerate",
			"/opt/homebrew/opt/openblas/lib/libopenblas.dylib", "/usr/local/opt/openblas/lib/libopenblas.dylib"}
	case "windows":
		return []string{"mkl_rt.2.dll", "mkl_rt.1.dll", "libopenblas.dll", "openblas.dll", "libblis.dll"}
	}
	return []string{"libmkl_rt.so.2", "libmkl_rt.so", "libopenblas.so.0", "libopenblas.so", "libblis.so.4", "libblis.so",
		"libblas.so.3", "libblas.so"}
}

// Open loads the library that $TUNE_BLAS names, else the first of those that the system usually has. The
// error of none says where they were looked for.
func Open() (*Library, error) {
	dynlib.QuietThreads()
	return dynlib.Choose(EnvLibrary, candidates(),
		"no BLAS was found; install one, such as OpenBLAS (Debian's libopenblas0)", identify)
}

func isAccelerate(path string) bool { return filepath.Base(path) == "Accelerate" }

// trimName leaves the version of what libraries say of themselves.
func trimName(s string) string {
	s = strings.TrimSpace(s)
	for _, name := range []string{"OpenBLAS ", "Intel(R) oneAPI Math Kernel Library Version ",
		"Intel(R) Math Kernel Library Version "} {
		s = strings.TrimPrefix(s, name)
	}
	if i := strings.Index(s, " for "); i > 0 {
		s = s[:i]
	}
	return strings.Join(strings.Fields(s), " ")
}
