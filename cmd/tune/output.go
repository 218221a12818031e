package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/journal"
)

// chooseOut returns the folder to save: the one given, which must be free, or else the
// first of tune-out, tune-out-2, ... that does not exist.
func chooseOut(given string, isGiven bool) (string, error) {
	if isGiven {
		entries, err := os.ReadDir(given)
		// A run that was killed before its first checkpoint has left nothing else.
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == journal.File })
		switch {
		case err == nil && len(entries) > 0 && hasCheckpoints(given):
			return "", fmt.Errorf("--out: %s exists and has checkpoints of a run; add --resume to go on with it, or choose another folder", given)
		case err == nil && len(entries) > 0:
			return "", fmt.Errorf("--out: %s exists and is not empty; choose another folder, or remove it", given)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("--out: %w; choose another folder", err)
		}
		return given, nil
	}
	for i := 1; ; i++ {
		name := given
		if i > 1 {
			name = fmt.Sprintf("%s-%d", given, i)
		}
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", fmt.Errorf("choose an output folder: %w; name one with --out", err)
		}
	}
}

// unfinished returns the folders beside out that runs have left which were killed before
// they could save. A run that still goes on has one too.
func unfinished(out string) []string {
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil {
		return nil // the folder may not be there yet, and whoever writes to it says so better
	}
	var left []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), filepath.Base(out)+".partial-") {
			left = append(left, filepath.Join(filepath.Dir(out), e.Name()))
		}
	}
	return left
}

// checkWritable reports why a file cannot be written, without changing it. An empty name,
// "-" and what is no plain file, such as a pipe, are left to the one who writes.
func checkWritable(file string) error {
	if file == "" || file == "-" {
		return nil
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil
	}
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil || !isNew {
		return err
	}
	return os.Remove(file)
}

// invocation is how to run this program again: by its name, or with the go command where
// that has built it for one run only.
func invocation() string {
	if exe, err := os.Executable(); err == nil && isGoRun(exe) {
		return "go run ./cmd/tune"
	}
	return "tune"
}

// isGoRun reports whether an executable is one of "go run": in the build cache, or in the
// temporary folder of a build.
func isGoRun(exe string) bool {
	for _, name := range strings.Split(filepath.ToSlash(filepath.Dir(exe)), "/") {
		if strings.HasPrefix(name, "go-build") {
			return true
		}
	}
	cache := os.Getenv("GOCACHE")
	return cache != "" && strings.HasPrefix(exe, filepath.Clean(cache)+string(filepath.Separator))
}
