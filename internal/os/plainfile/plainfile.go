// Package plainfile says what is wrong with a path in the words of the one who typed it. The
// errors of os name calls of the operating system, and nothing to do about them.
package plainfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/seed98097648/tune/internal/nearest"
)

// explained is an error with other words.
type explained struct {
	text  string
	cause error
}

// Error implements error.
func (e *explained) Error() string { return e.text }

// Unwrap returns the error of the operating system.
func (e *explained) Unwrap() error { return e.cause }

// Explain returns an *fs.PathError in plain words, and any other error as it is. What errors.Is
// finds in it stays.
func Explain(err error) error {
	p, ok := err.(*fs.PathError)
	if !ok {
		return err
	}
	return &explained{words(p), p}
}

// longest is how many bytes a name may have on the file systems of today.
const longest = 255

// words asks the file system where systems differ in what they call a mistake.
func words(p *fs.PathError) string {
	switch {
	case errors.Is(p.Err, syscall.ENAMETOOLONG), len(filepath.Base(p.Path)) > longest:
		return fmt.Sprintf("%.40s...: the name is too long", p.Path)
	case errors.Is(p.Err, fs.ErrNotExist) && !isBelowFile(p.Path):
		return p.Path + " does not exist" + hint(p.Path)
	case errors.Is(p.Err, fs.ErrNotExist), errors.Is(p.Err, syscall.ENOTDIR): // one and the same on Windows
		return p.Path + " cannot be: a part of that path is a file, not a folder"
	case errors.Is(p.Err, syscall.EISDIR), p.Op == "read" && isFolder(p.Path):
		return p.Path + " is a folder; name a file"
	case errors.Is(p.Err, fs.ErrPermission):
		return p.Path + ": permission denied; see its owner and mode, and those of the folders above it"
	}
	return p.Path + ": " + p.Err.Error()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isBelowFile reports whether the nearest thing above a path that there is, is a file.
func isBelowFile(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return err == nil && !info.IsDir()
		}
	}
}

// hint says what may be meant by a path that does not exist.
func hint(path string) string {
	switch {
	case strings.HasPrefix(path, "~"):
		return "; no shell has put a home folder for ~ here: write $HOME" + strings.TrimPrefix(path, "~")
	case strings.Contains(path, "://"):
		return "; nothing is downloaded: get it yourself, and name the file"
	}
	folder := filepath.Dir(path)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return ", nor does the folder " + folder
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	name, ok := nearest.Name(filepath.Base(path), names)
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", filepath.Join(folder, name))
}
