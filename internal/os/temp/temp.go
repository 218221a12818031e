// Package temp makes temporary files and folders that do not outlive their owner for long.
// They are locked for as long as their owner has them, and the system unlocks what a killed
// process leaves behind: the next one that makes the like removes that. Nobody has to look
// at numbers of processes, which are given again, and differ between containers that share
// a folder.
package temp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// Variable names the folder for temporary files, for messages.
func Variable() string {
	if runtime.GOOS == "windows" {
		return "TMP"
	}
	return "TMPDIR"
}

// tries bounds how often a file is made anew because somebody else took it for left behind,
// which happens only in the moment between making and locking it.
const tries = 100

// File creates a file for this user alone, after Sweep, and keeps it locked until it is
// closed. It has the family's name, in which the name and a number stand for the asterisk, and a
// path from the root, for processes in other folders.
func File(dir, family, name string) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	Sweep(dir, family)
	pattern := strings.Replace(family, "*", name+"-*", 1)
	for range tries {
		f, err := os.CreateTemp(dir, pattern)
		if err != nil || owned(f) {
			return f, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("temp: %s in %s: somebody removes every file that is made", pattern, dir)
}

// Remove removes a file that File made and that is closed. It may be gone already: closed, it is unlocked, and
// whoever sweeps at that moment removes it. Where what somebody has open cannot be removed, the next sweep does that.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) && !isOpen(err) {
		return err
	}
	return nil
}

// Sweep removes the files of a family that were left behind.
func Sweep(dir, family string) {
	sweep(dir, family, func(info fs.FileInfo) bool { return info.Mode().IsRegular() }, os.Remove)
}

// Folder creates a folder for this user alone, after removing those left behind under the
// same pattern, that of os.MkdirTemp, in which nothing lies but sockets and symbolic links. It is locked until
// remove is called, which removes it with all that is in it.
func Folder(dir, pattern string) (path string, remove func() error, err error) {
	sweep(dir, pattern, fs.FileInfo.IsDir, removeShallow)
	for range tries {
		path, err := os.MkdirTemp(dir, pattern)
		if err != nil {
			return "", nil, err
		}
		f, err := os.Open(path)
		if err == nil && owned(f) {
			return path, func() error { return errors.Join(f.Close(), os.RemoveAll(path)) }, nil
		}
		if f.Close(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, errors.Join(err, os.Remove(path))
		}
	}
	return "", nil, fmt.Errorf("temp: %s in %s: somebody removes every folder that is made", pattern, dir)
}

// owned locks what was just made, and reports whether it is still there.
func owned(f *os.File) bool {
	if ok, known := lock(f); known && !ok {
		return false
	}
	here, err := f.Stat()
	there, gone := os.Lstat(f.Name())
	return err == nil && gone == nil && os.SameFile(here, there)
}

// sweep removes what was left behind under a pattern. What it cannot know to be, or cannot
// remove, stays.
func sweep(dir, pattern string, is func(fs.FileInfo) bool, remove func(path string) error) {
	if dir == "" {
		dir = os.TempDir()
	}
	before, after, _ := strings.Cut(pattern, "*")
	ours := regexp.MustCompile("^" + regexp.QuoteMeta(before) + "(.+-)?[0-9]+" + regexp.QuoteMeta(after) + "$")
	root, err := os.OpenRoot(dir) // Windows lets others remove what is opened there
	if err != nil {
		return
	}
	defer root.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !ours.MatchString(e.Name()) {
			continue
		}
		if info, err := root.Lstat(e.Name()); err == nil && is(info) {
			removeLeft(root, info, remove)
		}
	}
}

// removeLeft removes a file or folder that nobody has locked.
func removeLeft(root *os.Root, info fs.FileInfo, remove func(path string) error) {
	f, err := root.Open(info.Name())
	if err != nil {
		return // another user's, or gone
	}
	defer f.Close()
	ok, _ := lock(f)
	if now, err := f.Stat(); !ok || err != nil || !os.SameFile(now, info) {
		return
	}
	_ = remove(filepath.Join(root.Name(), info.Name())) // the next one tries again
}

// removeShallow removes a folder of sockets, links and empty folders, such as a library makes for its own sockets.
func removeShallow(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type() != fs.ModeSocket && e.Type() != fs.ModeSymlink && !e.IsDir() {
			return fmt.Errorf("temp: %s has %s in it", path, e.Name())
		}
	}
	for _, folders := range []bool{true, false} { // a folder that is not empty stays, and all else with it
		for _, e := range entries {
			if e.IsDir() != folders {
				continue
			}
			if err := os.Remove(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(path)
}
