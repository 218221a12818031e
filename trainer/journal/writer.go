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
	gap       bool   // there is too much of it for more
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

// mostUnwritten is how many bytes wait for a disk that is full, those of some thirty thousand steps.
const mostUnwritten = 8 << 20

// Record appends an event. What cannot be written, as on a full disk, is an error, and is written with the next event
// or by Close. If much is waiting, a warning stands for the steps and all else that come before there is room.
func (w *Writer) Record(e Event) error {
	lines, err := w.unwritten, error(nil)
	if e = w.bounded(e); e != nil {
		lines, err = appendLine(lines, e)
	}
	if err == nil {
		w.unwritten = lines
		err = w.write()
	}
	if err != nil {
		return fmt.Errorf("journal: write %s: %w", w.file.Name(), err)
	}
	return nil
}

// bounded returns what is to be kept of an event: itself, the warning that begins a gap, or nothing within one. How
// long operations took, and the end, are always kept: of the former there are few.
func (w *Writer) bounded(e Event) Event {
	switch e.(type) {
	case *Start, *Kernels, *End:
		return e
	}
	step, isStep := e.(*Step)
	begun := w.gap
	w.gap = len(w.unwritten) > mostUnwritten && (begun || isStep)
	switch {
	case !w.gap:
		return e
	case begun:
		return nil
	}
	return &Warning{Time: step.Time, Step: step.Step - 1, Text: fmt.Sprintf("the journal lacks step %d and what came "+
		"after it, until the disk had room", step.Step)}
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
