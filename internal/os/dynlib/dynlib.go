// Package dynlib loads shared libraries while the program runs: without cgo, without anything to
// link, and without a word on what there is before it is looked for. A library stays until the
// process ends.
package dynlib

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is a shared library in this process.
type Library struct {
	Path   string // what was loaded: a path, or a name that the system's loader has found
	handle uintptr
}

// Open loads a library. Its symbols stay its own, so that another library of the same names does
// not meet them.
func Open(path string) (*Library, error) {
	if err := checkFile(path); err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	handle, err := load(path)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	return &Library{path, handle}, nil
}

// Choose returns what use makes of the library that the environment variable names, else of the
// first of the candidates of which it can make something. The error of none begins with the text
// and says where they were looked for.
func Choose[T any](variable string, candidates []string, none string, use func(*Library) (T, error)) (T, error) {
	var nothing T
	try := func(path string) (made T, err error) {
		l, err := Open(path)
		if err != nil {
			return made, err
		}
		return use(l)
	}
	if named := os.Getenv(variable); named != "" {
		if filepath.Base(named) != named && !filepath.IsAbs(named) {
			return nothing, fmt.Errorf("$%s is %s: name the library by its whole path, since a plugin runs in its own folder",
				variable, named)
		}
		made, err := try(named)
		if err != nil {
			return made, fmt.Errorf("the library that $%s names cannot be used: %w", variable, err)
		}
		return made, nil
	}
	var errs []error
	for _, path := range candidates {
		made, err := try(path)
		if err == nil {
			return made, nil
		}
		errs = append(errs, brief(err, path))
	}
	return nothing, fmt.Errorf("%s, or name one by $%s; these were looked for:\n%w", none, variable, errors.Join(errs...))
}

// brief leaves the name of a library that is not there: each loader says so in other words, some with the name twice,
// and a list of many candidates is read in one line.
func brief(err error, path string) error {
	cause := err
	for errors.Unwrap(cause) != nil {
		cause = errors.Unwrap(cause)
	}
	if text := cause.Error(); strings.HasPrefix(text, path+": ") && strings.HasSuffix(text, "No such file or directory") {
		return errors.New(path)
	}
	return err
}

// Func is the address of a function in C; 0 for one that a library does not have.
type Func uintptr

// Func returns the first of the names that the library has, or one that it needs has.
func (l *Library) Func(names ...string) Func {
	for _, name := range names {
		if at := symbol(l.handle, name); at != 0 {
			return Func(at)
		}
	}
	return 0
}

// Mark tells the file that a function was loaded from apart from others of its name: the first digits of its SHA-256,
// or "" where the system does not say which it is, or has it in no file.
func (f Func) Mark() string {
	path := fileOf(uintptr(f))
	if path == "" {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return ""
	}
	return fmt.Sprintf("%.4x", sum.Sum(nil))
}

// Call calls a function that takes integers and pointers, and returns what it returns, if that is one of
// these. A pointer is to be converted where it is passed, as for package syscall.
//
//go:uintptrescapes
func (f Func) Call(args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(uintptr(f), args...)
	return result
}

// Bind makes a function of Go that calls f, for arguments that are none of Call's, such as float32.
// As package purego has it, fn is a pointer to a variable.
func (f Func) Bind(fn any) { purego.RegisterFunc(fn, uintptr(f)) }

// longest is how much of a text is read, in bytes.
const longest = 512

// Text returns the C string at an address, "" for 0, of which it reads no more than half a KiB.
func Text(at uintptr) string {
	if at == 0 {
		return ""
	}
	var b []byte
	for p := *(*unsafe.Pointer)(unsafe.Pointer(&at)); ; p = unsafe.Add(p, 1) {
		c := *(*byte)(p)
		if c == 0 || len(b) == longest {
			return string(b)
		}
		b = append(b, c)
	}
}

// QuietThreads says to libraries with OpenMP that threads without work are to sleep: between two
// calls the processors belong to the host. They read it when they are loaded.
func QuietThreads() {
	quiet := map[string]string{"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
	for name, value := range quiet {
		if _, set := os.LookupEnv(name); !set {
			os.Setenv(name, value) // fails for no such name or value
		}
	}
}
