package cudalinear

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/ctest"
	"github.com/seed98097648/tune/plugins/cuda_linear/cuda"
)

// open returns the machine's device if the environment names its libraries, else one in C that is none.
func open(t testing.TB, flags ...string) *cuda.Device {
	t.Helper()
	if os.Getenv(cuda.EnvBLAS) == "" {
		lib := filepath.Join(t.TempDir(), "libcuda.so")
		ctest.Shared(t, lib, "plugins/cuda_linear/testdata/cuda.c", flags...)
		t.Setenv(cuda.EnvDriver, lib)
		t.Setenv(cuda.EnvBLAS, lib)
	}
	d, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(d)
	return d
}

func TestConforms(t *testing.T) {
	for _, k := range Kernels(open(t)) {
		op := k.Info().Op
		t.Run(string(op), func(t *testing.T) {
			kerneltest.Run(t, k, append(kerneltest.Cases(op), kerneltest.Sizes(op)...))
		})
	}
}
