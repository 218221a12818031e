// Package ctest builds plugins and libraries in C for tests that run them for real, where there is a
// C compiler.
package ctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// library is the folder with the plugin's side of the protocol, in C.
const library = "examples/c_kernel"

// Compile builds a plugin from a source file, named from the root of the module, and
// tune_plugin.c into the executable out. It skips the test where the host would refuse
// the plugin, having no doorbell, and where there is no C compiler named cc.
func Compile(t testing.TB, out, source string) {
	t.Helper()
	needDoorbell(t)
	root := testdata.Root(t)
	lib := filepath.Join(root, library)
	compile(t, "-O2", "-I", lib, "-o", out, filepath.Join(root, source), filepath.Join(lib, "tune_plugin.c"), "-lm",
		"-lpthread")
}

// CompilePlus is Compile for a source file in C++, where there is a compiler named c++, too.
func CompilePlus(t testing.TB, out, source string) {
	t.Helper()
	needDoorbell(t)
	cxx, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("there is no C++ compiler (c++), so what is in C++ is not tested; install one, such as Debian's g++")
	}
	root := testdata.Root(t)
	lib, object := filepath.Join(root, library), out+".o"
	compile(t, "-O2", "-c", "-o", object, filepath.Join(lib, "tune_plugin.c"))
	cmd := exec.Command(cxx, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", lib, "-o", out,
		filepath.Join(root, source), object, "-lpthread")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
}

// Clean has the compilers look at a source file, named from the root of the module, without a warning: as C, and as
// C++ too if plus is set and there is a compiler named c++.
func Clean(t testing.TB, source string, plus bool) {
	t.Helper()
	path := filepath.Join(testdata.Root(t), source)
	compile(t, "-fsyntax-only", "-Wconversion", "-Wshadow", path)
	cxx, err := exec.LookPath("c++")
	if err != nil || !plus {
		return
	}
	cmd := exec.Command(cxx, "-x", "c++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", path)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args, err, text)
	}
}

func needDoorbell(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getenv("TUNE_TRANSPORT") == "portable" {
		t.Skip("the portable transport has no doorbell, without which plugins in C are refused")
	}
}

// Shared builds a library from a source file, named from the root of the module, into out, with more flags for the
// compiler. It skips the test where libraries are not built as on Unix, and where there is no C compiler named cc.
func Shared(t testing.TB, out, source string, flags ...string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the library is built as on Unix")
	}
	compile(t, append(flags, "-O2", "-shared", "-fPIC", "-o", out, filepath.Join(testdata.Root(t), source),
		"-lpthread")...)
}

func compile(t testing.TB, args ...string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler (cc), so what is in C is not tested; install one, such as Debian's gcc")
	}
	cmd := exec.Command(cc, append([]string{"-std=c11", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"}, args...)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
}
