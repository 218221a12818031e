// Package onednn computes matrix products with the machine's own oneDNN (libdnnl), which it loads while
// the program runs: in float32, and from factors in bfloat16, for which processors have instructions of
// their own. It knows the interfaces in C of the versions 2.6 and later of 2, and of 3.
package onednn

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/os/dynlib"
)

// EnvLibrary names the environment variable that names the library to load: a path, or what the
// system's loader finds by its name.
const EnvLibrary = "TUNE_ONEDNN"

// candidates are the names of the libraries, the newest first, as systems and packagers have them. Debian's
// libdnnl3.6 is of version 3, whatever comes after its point.
var candidates = map[string][]string{
	"linux":   {"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2", "libdnnl.so"},
	"darwin":  {"libdnnl.3.dylib", "libdnnl.2.dylib", "libdnnl.dylib"},
	"windows": {"dnnl.dll"},
}

// Library is oneDNN in this process. It stays until the process ends, and keeps the primitives of some
// shapes, and memory for operands.
type Library struct {
	Version string // such as "3.7.2"
	Path    string // what was loaded
	Mark    string // of its file; see dynlib.Func.Mark
	isa     uintptr

	api
	engine, stream       uintptr
	plain, adding        uintptr     // attributes of primitives: nothing special, and C += instead of C =
	setThreads, threads  dynlib.Func // of OpenMP
	mu                   sync.Mutex
	prepared             map[shape]*prepared
	left, right, scratch []byte
}

// Open loads the library that $TUNE_ONEDNN names, else the first of those that the system usually has. The
// error of none says where they were looked for.
func Open() (*Library, error) {
	dynlib.QuietThreads()
	const none = "no oneDNN was found; install it (Debian's libdnnl2)"
	return dynlib.Choose(EnvLibrary, candidates[runtime.GOOS], none, use)
}

// version is dnnl_version_t.
type version struct {
	major, minor, patch int32
	hash                uintptr
	cpu, gpu            uint32
}

// openMP is the number of the runtime of threads, of those that a library may be built with, that can be told how
// many threads to use.
const openMP = 2

// use makes a Library of one that has oneDNN's functions.
func use(lib *dynlib.Library) (*Library, error) {
	l := &Library{Path: lib.Path, prepared: map[shape]*prepared{}}
	says := lib.Func("dnnl_version")
	if says == 0 {
		return nil, fmt.Errorf("%s has no dnnl_version: it is no oneDNN", lib.Path)
	}
	l.Mark = says.Mark()
	at := says.Call()
	v := *(*version)(*(*unsafe.Pointer)(unsafe.Pointer(&at)))
	l.Version = fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
	if !(v.major == 2 && v.minor >= 6 || v.major == 3) {
		return nil, fmt.Errorf("%s is oneDNN %s: this needs 2.6 or later, or 3", lib.Path, l.Version)
	}
	l.setThreads, l.threads = lib.Func("omp_set_num_threads"), lib.Func("omp_get_max_threads")
	if v.cpu != openMP || l.setThreads == 0 || l.threads == 0 {
		return nil, fmt.Errorf("%s is built without OpenMP: nothing else can be told how many threads to use", lib.Path)
	}
	if missing := l.api.find(lib, int(v.major)); missing != "" {
		return nil, fmt.Errorf("%s, oneDNN %s, has no %s", lib.Path, l.Version, missing)
	}
	l.isa = l.effectiveISA.Call()
	return l, l.start()
}

// start makes what all primitives have in common. Of those the library would keep some itself, but
// they are kept in prepared. What a primitive needs while it runs is to be given to it: else it would belong
// to the thread that made it.
func (l *Library) start() error {
	const cpu, first, inOrder, undefined = 1, 0, 1, 0
	const scratchGiven = 1 // dnnl_scratchpad_mode_user
	var postOps uintptr
	for _, step := range []struct {
		what string
		call func() uintptr
	}{
		{"dnnl_set_primitive_cache_capacity", func() uintptr { return l.setCache.Call(0) }},
		{"dnnl_engine_create", func() uintptr {
			return l.engineCreate.Call(uintptr(unsafe.Pointer(&l.engine)), cpu, first)
		}},
		{"dnnl_stream_create", func() uintptr {
			return l.streamCreate.Call(uintptr(unsafe.Pointer(&l.stream)), l.engine, inOrder)
		}},
		{"dnnl_primitive_attr_create", func() uintptr { return l.attrCreate.Call(uintptr(unsafe.Pointer(&l.plain))) }},
		{"dnnl_primitive_attr_create", func() uintptr { return l.attrCreate.Call(uintptr(unsafe.Pointer(&l.adding))) }},
		{"dnnl_primitive_attr_set_scratchpad_mode", func() uintptr { return l.setScratchpad.Call(l.plain, scratchGiven) }},
		{"dnnl_primitive_attr_set_scratchpad_mode", func() uintptr { return l.setScratchpad.Call(l.adding, scratchGiven) }},
		{"dnnl_post_ops_create", func() uintptr { return l.postOpsCreate.Call(uintptr(unsafe.Pointer(&postOps))) }},
		{"dnnl_post_ops_append_sum", func() uintptr { return uintptr(l.sum(postOps, 1, 0, undefined)) }},
		{"dnnl_primitive_attr_set_post_ops", func() uintptr { return l.setPostOps.Call(l.adding, postOps) }},
		{"dnnl_post_ops_destroy", func() uintptr { return l.postOpsDestroy.Call(postOps) }},
	} {
		if err := l.done(step.what, step.call()); err != nil {
			return err
		}
	}
	return nil
}

// done makes an error of a status.
func (l *Library) done(what string, status uintptr) error {
	if int32(status) != 0 {
		return fmt.Errorf("%s, oneDNN %s: %s gives status %d", l.Path, l.Version, what, int32(status))
	}
	return nil
}

// Instruction sets that a library uses are sets of bits, the same in versions 2 and 3.
const (
	isaBFloat16 = 0xe7
	isaAMX      = 0x3e7
)

// BFloat16 reports whether the processor has instructions for products of bfloat16, and the library uses
// them: AVX512_BF16 or AMX.
func (l *Library) BFloat16() bool { return l.isa&isaBFloat16 == isaBFloat16 }

// String describes the library in a line.
func (l *Library) String() string {
	isa := "neither AVX512_BF16 nor AMX"
	switch {
	case l.isa&isaAMX == isaAMX:
		isa = "AMX"
	case l.BFloat16():
		isa = "AVX512_BF16"
	}
	what := fmt.Sprintf("oneDNN %s, %s, %d threads of OpenMP", l.Version, isa, vector.Threads())
	return dynlib.Describe(what, l.Mark, l.Path, 120)
}

// onThreads calls f with as many threads of OpenMP as this process may use, and gives them back. The number is the
// calling thread's own.
func (l *Library) onThreads(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := l.threads.Call()
	l.setThreads.Call(uintptr(vector.Threads()))
	defer func() { l.setThreads.Call(before) }()
	f()
}
