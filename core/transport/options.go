package transport

import (
	"cmp"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/trust"
	"github.com/seed98097648/tune/internal/shm"
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
	// which counts as a death.
	CallTimeout time.Duration
	// Spin is how long both sides of a call wait actively before they sleep: it spares
	// a few microseconds a call on an idle machine and costs them on a busy one. 0
	// means 30 us, or none on a machine with one core; a negative value means none.
	Spin time.Duration
	// Portable uses mapped files and RPC even where the faster way exists. So does the
	// environment variable TUNE_TRANSPORT=portable.
	Portable bool
	// Strict makes errors of what would fall back to the reference.
	Strict bool
	// OutputSize is the address space for a plugin's outputs, in bytes; 0 means
	// shm.DefaultSize.
	OutputSize int64
	// Lock lists the plugins that may be started; nil means every one that nobody but the
	// user and root could have written. See package trust.
	Lock *trust.Lock
	// Env names variables of the host's environment that plugins get too, besides those of
	// Environment; NAME=VALUE sets one.
	Env []string
	// MaxMemory limits the private memory of a plugin's process, and apart from that its
	// memory for outputs, in bytes each; 0 means no limit. A process that asks for more
	// is refused it, of which most die. It works on Linux only, as does MaxCPUs: elsewhere
	// no plugin can be opened with a limit.
	MaxMemory int64
	// MaxCPUs limits the processors that a plugin runs on; 0 means all.
	MaxCPUs int
	// CacheDir holds the record of kernels found correct. "" means the folder
	// tune/verified in os.UserCacheDir; "off" verifies in every run.
	CacheDir string
	// Reference gives the plain implementation that takes over when a plugin cannot go
	// on. nil means reference.Kernel.
	Reference func(core.Op) core.Kernel
	// Verify compares a kernel with the reference. nil means kerneltest.Verify.
	Verify func(core.Kernel, core.Facts) error
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
	if o.Spin == 0 && runtime.NumCPU() > 1 {
		o.Spin = 30 * time.Microsecond
	}
	o.Portable = o.Portable || !hasDoorbell || os.Getenv("TUNE_TRANSPORT") == "portable"
	if o.MaxMemory > 0 {
		o.OutputSize = min(cmp.Or(o.OutputSize, shm.DefaultSize()), o.MaxMemory)
	}
	if o.MaxCPUs > 0 {
		o.Threads = min(cmp.Or(o.Threads, o.MaxCPUs), o.MaxCPUs)
	}
	if o.Reference == nil {
		o.Reference = reference.Kernel
	}
	if o.Verify == nil {
		o.Verify = kerneltest.Verify
	}
	return o
}

// Memory is memory for tensors that plugins can read without a copy.
type Memory interface {
	core.Memory
	io.Closer
}

// NewMemory reserves that many bytes of address space, 0 for a generous default, for
// parameters, activations and gradients. Plugins see them without a copy and, on
// Linux, cannot write to them. A kernel's outputs need no copy either if they lie in
// its own memory; see core.OutputMemory.
func NewMemory(name string, bytes int64) (Memory, error) {
	return shm.New(name, bytes, shm.HostOnly)
}
