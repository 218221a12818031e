package blas

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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
	quietThreads()
	if named := os.Getenv(EnvLibrary); named != "" {
		l, err := load(named)
		if err != nil {
			return nil, fmt.Errorf("the library that $%s names cannot be used: %w", EnvLibrary, err)
		}
		return l, nil
	}
	var errs []error
	for _, name := range candidates() {
		l, err := load(name)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no BLAS was found; install one, such as Debian's libopenblas0, or name one by $%s; "+
		"these were looked for:\n%w", EnvLibrary, errors.Join(errs...))
}

// load loads a library by its path or name.
func load(name string) (*Library, error) {
	handle, err := openLibrary(name)
	if err != nil {
		return nil, err
	}
	return identify(handle, name)
}

// quietThreads says to libraries with OpenMP that threads without work are to sleep: between two
// calls the processors belong to the host. They read it when they are loaded.
func quietThreads() {
	quiet := map[string]string{"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
	for name, value := range quiet {
		if _, set := os.LookupEnv(name); !set {
			os.Setenv(name, value) // fails for no such name or value
		}
	}
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
