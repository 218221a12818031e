package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// Writer appends events to a journal.
type Writer struct {
	file      *os.File
	unwritten []byte // what the file could not take yet, and room for the next line
}

var _ Sink = (*Writer)(nil)

// Open opens the journal at path to go on with it, or starts one. Half a line that a run
// which was killed has left at the end is removed.
func Open(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := dropTorn(f); err != nil {
		return nil, fmt.Errorf("journal: %s: %w", path, errors.Join(err, f.Close()))
	}
	return &Writer{file: f}, nil
}

// dropTorn cuts a file behind its last line that is whole.
func dropTorn(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	const block = 4096
	b := make([]byte, block)
	for end := info.Size(); end > 0; {
		start := max(end-block, 0)
		n, err := f.ReadAt(b[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
			if whole := start + int64(i) + 1; whole < info.Size() {
				return f.Truncate(whole)
			}
			return nil
		}
		end = start
	}
	return f.Truncate(0)
}

// Record appends an event. What cannot be written, as on a full disk, is an error, and is written with the next event
// or by Close.
func (w *Writer) Record(e Event) error {
	lines, err := appendLine(w.unwritten, e)
	if err == nil {
		w.unwritten = lines
		err = w.write()
	}
	if err != nil {
		return fmt.Errorf("journal: write %s: %w", w.file.Name(), err)
	}
	return nil
}

func (w *Writer) write() error {
	n, err := w.file.Write(w.unwritten)
	w.unwritten = w.unwritten[:copy(w.unwritten, w.unwritten[n:])]
	return err
}

// Close brings the journal to the disk. If it has lost its name, as with a folder that somebody has removed, it is
// written there anew.
func (w *Writer) Close() error {
	err := errors.Join(w.write(), w.file.Sync())
	if _, gone := os.Lstat(w.file.Name()); errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, w.rewrite())
	}
	if err := errors.Join(err, w.file.Close()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// CloseAgain writes what Close could not, as on a full disk, once there may be room.
func (w *Writer) CloseAgain() error {
	f, err := os.OpenFile(w.file.Name(), os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	w.file = f
	return w.Close()
}

func (w *Writer) rewrite() error {
	text, err := io.ReadAll(io.NewSectionReader(w.file, 0, math.MaxInt64))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(w.file.Name()), 0o777)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(w.file.Name(), text, 0o644)
}
