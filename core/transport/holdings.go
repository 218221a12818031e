package transport

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/seed98097648/tune/core/kerneltest"
)

var _ kerneltest.Process = (*kernel)(nil)

// Holdings implements kerneltest.Process for the plugin's process, which all kernels of the
// plugin share. It is an error while there is no process, and where the operating system
// does not tell what one has. Files are known if Options.Env sets TMPDIR.
func (k *kernel) Holdings() (kerneltest.Holdings, error) {
	k.plugin.mu.Lock()
	defer k.plugin.mu.Unlock()
	p := k.plugin.proc
	if p == nil {
		return kerneltest.Holdings{}, fmt.Errorf("transport: plugin %s has no process now", k.plugin.manifest.Name)
	}
	h, err := holdings(p.cmd.Process.Pid)
	if err != nil {
		return h, fmt.Errorf("transport: what plugin %s has: %w", k.plugin.manifest.Name, err)
	}
	mark := tempDir(p.opts.Env)
	others, err := relatives(p.cmd.Process.Pid, mark)
	h.Children, h.Files, h.Printed = len(others), countFiles(mark), p.printed.Load()
	return h, err
}

// tempDir returns the variable that gives plugins a folder for temporary files of their
// own, as NAME=VALUE, or "". All that a process starts inherits it.
func tempDir(env []string) string {
	mark := ""
	for _, e := range env {
		if strings.HasPrefix(e, "TMPDIR=") {
			mark = e
		}
	}
	return mark
}

// countFiles returns the number of files and folders below the folder of tempDir.
func countFiles(mark string) int {
	if mark == "" {
		return 0
	}
	n := -1 // itself
	_ = filepath.WalkDir(strings.TrimPrefix(mark, "TMPDIR="), func(string, fs.DirEntry, error) error { n++; return nil })
	return max(n, 0)
}

// counter counts what is written.
type counter struct{ n *atomic.Int64 }

var _ io.Writer = counter{}

// Write implements io.Writer.
func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// Left is a process that a plugin has started and that has not ended.
type Left struct {
	PID     int
	Command string // what it calls itself
}

// Survivors returns the processes in whose environment a variable has that value: all that
// a plugin has started has it, if it was given to the plugin by Options.Env, whatever group
// or session it went to. It is an error where the operating system does not tell.
func Survivors(variable, value string) ([]Left, error) { return relatives(0, variable+"="+value) }
