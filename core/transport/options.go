package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/trust"
	"github.com/seed98097648/tune/internal/os/checksum"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/os/self"
	"github.com/seed98097648/tune/internal/os/shm"
)

// Options say how plugins are run. The zero value is right for most programs.
type Options struct {
	// Logger receives what happens to plugins: deaths and fallbacks as warnings, a
	// CacheDir that cannot be written as information, what plugins themselves write at
	// debug level. nil means slog.Default().
	Logger *slog.Logger
	// Threads limits the threads a plugin computes with; 0 means all cores.
	Threads int
	// StartTimeout limits the handshake of a plugin; 0 means 10 s.
	StartTimeout time.Duration
	// CallTimeout limits one call; 0 means 60 s. A plugin that exceeds it is stopped,
	// which counts as a death. A call with much to do gets longer: a second for each 4 billion
	// operations and for each 200 MB that it reads or writes.
	CallTimeout time.Duration
	// Spin is how long both sides of a call wait actively before they sleep: it spares
	// a few microseconds a call on an idle machine and costs them on a busy one. 0
	// means 30 us, or none on a machine with one core; a negative value means none.
	Spin time.Duration
	// Portable uses mapped files and a socket even where the faster way exists, and nothing that
	// only one operating system has. So does the environment variable
	// TUNE_TRANSPORT=portable. Tensors that are to need no copy must then lie in memory of
	// Options.NewMemory.
	Portable bool
	// Strict makes errors of what would fall back to the reference.
	Strict bool
	// OutputSize is the most that the outputs of a plugin, or of those that share a process, may take, in bytes; 0
	// means the memory of the machine.
	OutputSize int64
	// Lock lists the plugins that may be started; nil means every one that nobody but the
	// user and root could have written. See package trust.
	Lock *trust.Lock
	// Env names variables of the host's environment that plugins get too, besides those of
	// Environment; NAME=VALUE sets one.
	Env []string
	// MaxMemory limits the private memory of a plugin's process, and apart from that its
	// memory for outputs, in bytes each; 0 means no limit. A process that asks for more
	// does not get it, and mostly dies of that. It works on Linux only, as does MaxCPUs: elsewhere
	// no plugin can be opened with a limit.
	MaxMemory int64
	// MaxKept limits what the kernels of a process keep of their inputs from call to call, in bytes, such as
	// a weight that is not trained in the form that products want; 0 means an eighth of the machine's
	// memory, and a negative number nothing. It is never more than half of MaxMemory. See package keep.
	MaxKept int64
	// MaxCPUs limits the processors that a plugin runs on; 0 means all.
	MaxCPUs int
	// CacheDir holds the record of kernels found correct and, unless there is a Lock, the checksums of executables that
	// nobody has written to since. "" means the folder tune/verified in os.UserCacheDir; "off" verifies in every run.
	CacheDir string
	// Reference gives the plain implementation that takes over when a plugin cannot go
	// on. nil means reference.Kernel.
	Reference func(core.Op) core.Kernel
	// Verify compares a kernel with the reference. nil means kerneltest.Verify.
	Verify func(context.Context, core.Kernel, core.Facts) error

	cancelGrace time.Duration // how long a call may go on whose context is done; 0 means the constant of that name

	grpcOnly bool // requests go by gRPC even where the plugin knows the plain stream

	how     platform      // chosen by withDefaults
	program func() string // the checksum of this program, "" if unknown
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 10 * time.Second
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 60 * time.Second
	}
	o.cancelGrace = cmp.Or(o.cancelGrace, cancelGrace)
	if o.Spin == 0 && runtime.NumCPU() > 1 {
		o.Spin = 30 * time.Microsecond
	}
	var lack error
	if o.how, lack = o.choosePlatform(); lack != nil && lack != errNoDoorbell {
		o.Logger.Info("plugins are run the portable way, with mapped files and slower calls", "reason", lack)
	}
	o.Portable = o.how.doorbell == nil
	if o.MaxMemory > 0 {
		o.OutputSize = min(cmp.Or(o.OutputSize, o.MaxMemory), o.MaxMemory)
	}
	o.MaxKept = cmp.Or(o.MaxKept, memory.Total()/8)
	if o.MaxMemory > 0 {
		o.MaxKept = min(o.MaxKept, o.MaxMemory/2)
	}
	if o.MaxCPUs > 0 {
		o.Threads = min(cmp.Or(o.Threads, o.MaxCPUs), o.MaxCPUs)
	}
	if o.Reference == nil {
		o.Reference = reference.Kernel
	}
	if o.program == nil {
		o.program = func() string { return self.Noted(o.notes()) }
	}
	if o.Verify == nil {
		o.Verify = kerneltest.Verify
	}
	return o
}

// cacheDir returns the folder of what is remembered, "" for none.
func (o Options) cacheDir() string {
	switch o.CacheDir {
	case "off":
		return ""
	case "":
		if base, err := os.UserCacheDir(); err == nil {
			return filepath.Join(base, "tune", "verified")
		}
	}
	return o.CacheDir
}

// notes returns where checksums of executables are noted: nowhere if a lock guards what is started.
func (o Options) notes() checksum.Notes {
	if o.Lock != nil {
		return ""
	}
	return checksum.Notes(o.cacheDir())
}

// errNoLimits is the answer where the operating system cannot limit another process.
var errNoLimits = fmt.Errorf("the memory and processors of a plugin can be limited on Linux only; "+
	"go on without transport.Options.MaxMemory and transport.Options.MaxCPUs: %w", errors.ErrUnsupported)

// CheckLimits reports limits that cannot be set, as opening a plugin would.
func (o Options) CheckLimits() error {
	switch {
	case o.MaxMemory < 0 || o.MaxCPUs < 0:
		return fmt.Errorf("transport: limits of a plugin: %d bytes and %d processors must not be negative",
			o.MaxMemory, o.MaxCPUs)
	case (o.MaxMemory > 0 || o.MaxCPUs > 0) && !hasLimits:
		return fmt.Errorf("transport: %w", errNoLimits)
	}
	return nil
}

// Memory is memory for tensors that plugins can read without a copy. Close it after what uses its tensors, such as
// models and engines: whoever reads one of them then ends the program, without a panic that could be recovered.
type Memory interface {
	core.Memory
	io.Closer
}

// ErrNoRoom is in the error of an allocation that finds no memory.
var ErrNoRoom = shm.ErrNoRoom

// NewMemory makes memory of at most that many bytes, 0 for as many as the machine has, for
// parameters, activations and gradients. It takes address space as it grows. Plugins see
// what lies there without a copy and, on Linux, cannot write to it. A kernel's outputs need
// no copy either if they lie in its own memory; see core.OutputMemory.
func NewMemory(name string, bytes int64) (Memory, error) {
	return Options{}.NewMemory(name, bytes)
}

// NewMemory is like the function, for plugins that these options open.
func (o Options) NewMemory(name string, bytes int64) (Memory, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("transport: memory %s: %d bytes are fewer than none", name, bytes)
	}
	o.how, _ = o.choosePlatform() // withDefaults says why
	return o.pool(name, bytes, shm.HostOnly), nil
}

// NewShapes makes memory that is planned and never touched: it takes addresses, and no room of the machine's.
func NewShapes(name string) Memory {
	how, _ := Options{}.choosePlatform()
	return shm.NewShapes(name, how.region)
}

// pool makes memory for tensors, with at most that many bytes.
func (o Options) pool(name string, bytes int64, kind shm.Kind) *shm.Pool {
	return shm.NewPool(name, cmp.Or(bytes, memory.Total()), kind, o.how.region)
}
