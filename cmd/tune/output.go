package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
)

// chooseOut claims the folder to save: the one given, which must be free, or else the first
// of tune-out, tune-out-2, ... that does not exist and no other run is to save.
func (a *app) chooseOut(given string, isGiven bool) (string, *checkpoint.Claim, error) {
	if isGiven {
		if err := vacant(given); err != nil {
			return "", nil, err
		}
		claim, err := checkpoint.NewClaim(given)
		if err != nil {
			return "", nil, fmt.Errorf("--out: %w", err)
		}
		if err := vacant(given); err != nil { // the run that had it has just ended
			return "", nil, errors.Join(err, claim.Close())
		}
		return given, claim, nil
	}
	name, claim, err := checkpoint.FreeName(given, 1, func(name string) {
		a.note("%s is being written by another run: this one takes the next name that is free", name)
	})
	if err != nil {
		return "", nil, fmt.Errorf("choose an output folder: %w; name one with --out", err)
	}
	return name, claim, nil
}

// vacant reports why a folder cannot be the one to save.
func vacant(given string) error {
	entries, err := os.ReadDir(given)
	// A run that was killed before its first checkpoint has left nothing else.
	killed := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == journal.File })
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		left := e.Name() == journal.File || e.Name() == trainer.PredictionsDir
		return killed && left || checkpoint.Unfinished(e.Name())
	})
	switch {
	case err == nil && len(entries) > 0 && hasCheckpoints(given):
		return fmt.Errorf("--out: %s exists and has checkpoints of a run; add --resume to go on with it, or choose "+
			"another folder", given)
	case err == nil && len(entries) > 0:
		return fmt.Errorf("--out: %s exists and is not empty; choose another folder, or remove it", given)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		if info, statErr := os.Stat(given); statErr == nil && !info.IsDir() {
			return fmt.Errorf("--out: %s is a file; choose another name for the folder", given)
		}
		if plainfile.MoreFiles(err) != "" { // as it would be with another
			return fmt.Errorf("--out: %w", err)
		}
		return fmt.Errorf("--out: %w; choose another folder", plainfile.Explain(err))
	}
	return nil
}

// unfinished returns the folders beside out, and in it, that runs have left which were
// killed before they could save. A run that still goes on has one too.
func unfinished(out string) []string {
	beside, _ := filepath.Glob(quoteGlob(out) + ".partial-*") // who writes there says better what is wrong
	within, _ := filepath.Glob(filepath.Join(quoteGlob(out), "final.partial-*"))
	return append(beside, within...)
}

// quoteGlob makes a path a pattern for itself.
func quoteGlob(path string) string {
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(path, `\$0`)
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
