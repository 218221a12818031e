package transport

import (
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/seed98097648/tune/internal/os/checksum"
	"github.com/seed98097648/tune/internal/os/shm"
)

// platform is how plugins are run: everything that not all operating systems have. It is
// chosen once, by Options.withDefaults, so that nothing of one way is taken on the other.
type platform struct {
	// region makes memory that both processes map.
	region func(name string, size int64, kind shm.Kind) (*shm.Region, error)
	// doorbell makes the link through shared memory, and the file of it that a plugin
	// inherits. It is nil where calls go by RPC.
	doorbell func(life *lifeline, spin time.Duration) (link, *os.File, error)
	// open opens an executable, which is a regular file.
	open func(path string) (*os.File, error)
	// state tells contents of an open executable from others that it had before, or will have; not where the system
	// cannot.
	state func(f *os.File) (s checksum.State, known bool)
	// runnable names what to start: the open file, or its path.
	runnable func(f *os.File, path string) string
	// isolate prepares a process before its start.
	isolate func(*exec.Cmd)
	// coarseTimers is as sched.CoarseTimers.
	coarseTimers func() (restore func() error)
	// awaitEnd waits until the process has ended, and ends the rest of its process group.
	awaitEnd func(*exec.Cmd) error
}

// portable is the platform that every system has. It is right on Linux, too, where it
// takes nothing that others lack.
var portable = platform{
	region:       shm.NewFile,
	open:         os.Open,
	state:        func(*os.File) (s checksum.State, known bool) { return s, false },
	runnable:     func(_ *os.File, path string) string { return path },
	isolate:      isolate,
	coarseTimers: func() (restore func() error) { return func() error { return nil } },
	awaitEnd: func(cmd *exec.Cmd) error {
		err := cmd.Wait()
		_ = cmd.Cancel() // nobody may be left
		return err
	},
}

// errNoDoorbell is why calls go by RPC on systems other than Linux.
var errNoDoorbell = errors.New("this system has no doorbell")

// choosePlatform returns the way that the options ask for, or the portable one where the other
// cannot be had; the error says what it lacks.
func (o Options) choosePlatform() (platform, error) {
	if o.Portable || os.Getenv("TUNE_TRANSPORT") == "portable" {
		return portable, nil
	}
	if err := nativeLacks(); err != nil {
		return portable, err
	}
	return native, nil
}
