package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/trust"
)

// executable is a plugin's file, open. Its checks, its checksum and what is started are
// all about this one file, whatever comes to lie at its path meanwhile.
type executable struct {
	*os.File
	path string // as somebody named it
	abs  string // the same, from the root
	run  string // what to start: the open file where the system can, else the path
}

// openExecutable opens a file that may be a plugin, unless it cannot be one or somebody
// else could have written it.
func openExecutable(how platform, path string) (*executable, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("transport: open plugin: %w", err)
	}
	// Looked at before it is opened: opening a pipe would wait for its writer.
	if info, err := os.Stat(abs); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("transport: %s: %w: %w", path, core.ErrIncompatible, checkExecutable(path, info))
	}
	f, err := how.open(abs)
	if err != nil {
		return nil, fmt.Errorf("transport: open plugin: %w", err)
	}
	e := &executable{File: f, path: path, abs: abs, run: abs}
	if err := e.check(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if script, err := e.isScript(); err != nil || !script {
		e.run = how.runnable(f, abs)
	}
	return e, nil
}

// check says what is wrong with a file that must not be started.
func (e *executable) check() error {
	info, err := e.Stat()
	if err != nil {
		return fmt.Errorf("transport: open plugin: %w", err)
	}
	if err := checkExecutable(e.path, info); err != nil {
		return fmt.Errorf("transport: %s: %w: %w", e.path, core.ErrIncompatible, err)
	}
	if err := trust.CheckFile(e.File, e.path); err != nil {
		return fmt.Errorf("transport: %s: %w", e.path, err)
	}
	return nil
}

// isScript reports whether an interpreter is to run the file, which opens it by its path.
func (e *executable) isScript() (bool, error) {
	var start [2]byte
	_, err := e.ReadAt(start[:], 0)
	return string(start[:]) == "#!", err
}

// alias returns what to start, by a name in dir that ends as the path does: it is what
// lists of processes show.
func (e *executable) alias(dir string) (string, error) {
	if e.run == e.abs {
		return e.abs, nil
	}
	name := filepath.Join(dir, filepath.Base(e.path))
	return name, os.Symlink(e.run, name)
}

// checksum returns the SHA-256 of the file, hexadecimal.
func (e *executable) checksum() (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(e, 0, 1<<62)); err != nil {
		return "", fmt.Errorf("transport: read plugin: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
