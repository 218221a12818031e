package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
)

// vicinity is where a plugin that is verified can leave something behind.
type vicinity struct {
	temp   string          // the folder for its temporary files, which it has to itself
	folder string          // of its executable, where it works
	before map[string]bool // what lay there
}

// newVicinity prepares it for the executable at a path. The caller calls remove.
func newVicinity(path string) (*vicinity, error) {
	file, err := transport.Executable(path)
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "tune-verify-")
	if err == nil {
		temp, err = filepath.Abs(temp) // the plugin works in another folder
	}
	if err != nil {
		return nil, fmt.Errorf("the plugin gets no folder for temporary files: %w; have the environment variable TMPDIR "+
			"name a folder that can be written to", err)
	}
	s := &vicinity{temp: temp, folder: filepath.Dir(file), before: map[string]bool{}}
	for _, name := range list(s.folder) {
		s.before[name] = true
	}
	return s, nil
}

func (s *vicinity) remove() error { return os.RemoveAll(s.temp) }

// env is what the plugin's environment has besides.
func (s *vicinity) env() string { return "TMPDIR=" + s.temp }

// endingTime is how long what a plugin has started may outlive it: it was told to end, or
// reads the end of a pipe.
const endingTime = time.Second

// look says what is left once the plugin is closed, and ends processes that are; notRun is
// why those are not known.
func (s *vicinity) look() (all []kerneltest.Violation, notRun string) {
	say := func(format string, args ...any) {
		all = append(all, kerneltest.Violation{Text: fmt.Sprintf(format, args...)})
	}
	left, err := transport.Survivors("TMPDIR", s.temp)
	for start := time.Now(); len(left) > 0 && time.Since(start) < endingTime; {
		time.Sleep(endingTime / 20)
		left, err = transport.Survivors("TMPDIR", s.temp)
	}
	if err != nil {
		notRun = err.Error()
	}
	for _, p := range left {
		say("process %d (%s), which it has started, lives on after the plugin was closed; it is ended now", p.PID, p.Command)
		if err := end(p.PID); err != nil && !errors.Is(err, os.ErrProcessDone) {
			say("it cannot be ended: %v", err)
		}
	}
	if names := filesBelow(s.temp); len(names) > 0 {
		say("it leaves %s in the folder for temporary files, $TMPDIR: %s", amount.Of(len(names), "file"), few(names))
	}
	var added []string
	for _, name := range list(s.folder) {
		if !s.before[name] {
			added = append(added, name)
		}
	}
	if len(added) > 0 {
		say("%s appeared in its working folder, %s, while it ran: %s", amount.Of(len(added), "file"), short(s.folder),
			few(added))
	}
	return all, notRun
}

func end(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return errors.Join(p.Kill(), p.Release())
}

// list returns the names in a folder.
func list(dir string) []string {
	entries, _ := os.ReadDir(dir) // what cannot be read cannot be compared
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// filesBelow returns all that lies below a folder, which is there.
func filesBelow(dir string) []string {
	var names []string
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		if path != dir {
			names = append(names, strings.TrimPrefix(path, dir+string(filepath.Separator)))
		}
		return nil
	})
	return names
}

// few names the first of many.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// progressEvery is how often verify says what it is doing, if that takes so long.
const progressEvery = 10 * time.Second

// tellOfCases says every so often which case of a kernel is being run, which on hears of, until
// stop is called. It needs no progress for that: one case of a slow kernel can take long.
func (a *app) tellOfCases(kernel string, every time.Duration) (on func(kind string, i, n int), stop func()) {
	var what atomic.Value
	what.Store("asking what it supports")
	stop = meanwhile(func(done <-chan struct{}) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				a.note("verifying %s: %s", kernel, what.Load())
			}
		}
	})
	return func(kind string, i, n int) { what.Store(fmt.Sprintf("%s, case %d of %d", kind, i, n)) }, stop
}
