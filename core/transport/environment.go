package transport

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/internal/wire"
)

// inherited are the variables of the host's environment that every plugin gets, if they
// are set: what programs need to find their files and to speak the user's language, and
// what tunes Go's runtime. Nothing here holds a secret. Names that end in * are
// beginnings.
var inherited = []string{
	"PATH", "HOME", "USER", "LANG", "LC_*", "TZ", "TMPDIR", "XDG_CACHE_HOME",
	"TUNE_BLAS", "TUNE_ONEDNN", // the libraries of plugins/blas_linear and plugins/onednn_linear
	"TUNE_CUDA", "TUNE_CUBLAS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", // those of plugins/cuda_linear, and devices
	"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GORACE", "GOCOVERDIR",
}

// inheritedOnWindows are those that programs need there besides.
var inheritedOnWindows = []string{"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP", "USERPROFILE", "LOCALAPPDATA",
	"PATHEXT", "COMSPEC"}

// Environment returns the names of the variables that plugins get from the host's
// environment, sorted: those that every plugin gets, and the names of o.Env. Names that
// end in * are beginnings. What the transport adds for itself is not among them.
func (o Options) Environment() []string {
	names := slices.Clone(inherited)
	if runtime.GOOS == "windows" {
		names = append(names, inheritedOnWindows...)
	}
	for _, e := range o.Env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// environment is what a plugin's process gets, short of what go-plugin adds.
func (o Options) environment(link string) []string {
	names := o.Environment()
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if slices.ContainsFunc(names, func(pattern string) bool { return standsFor(pattern, name) }) {
			env = append(env, fromRoot(e))
		}
	}
	for _, e := range o.Env {
		if strings.Contains(e, "=") {
			env = append(env, e)
		}
	}
	return append(env, wire.EnvLink+"="+link, wire.EnvSpin+"="+strconv.FormatInt(o.Spin.Nanoseconds(), 10)+"ns",
		wire.EnvThreads+"="+strconv.Itoa(o.Threads), wire.EnvHost+"="+strconv.Itoa(os.Getpid()),
		wire.EnvKeep+"="+strconv.FormatInt(o.MaxKept, 10))
}

// fromRoot returns a variable for a process that works in another folder: what names the folder for temporary files
// does so from the root.
func fromRoot(e string) string {
	name, value, _ := strings.Cut(e, "=")
	if value == "" || !slices.Contains([]string{"TMPDIR", "TMP", "TEMP"}, strings.ToUpper(name)) {
		return e
	}
	if abs, err := filepath.Abs(value); err == nil {
		value = abs
	}
	return name + "=" + value
}

// standsFor reports whether a name of Environment stands for the variable.
func standsFor(pattern, name string) bool {
	if runtime.GOOS == "windows" {
		pattern, name = strings.ToUpper(pattern), strings.ToUpper(name)
	}
	if beginning, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, beginning)
	}
	return pattern == name
}
