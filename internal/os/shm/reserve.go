package shm

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/temp"
)

// Reserve makes sure that the first n bytes of a region can be written: a write to a file for which the file
// system then has no room would end the process, whoever's it is. The error wraps ErrNoRoom. Pools do it for
// what they hand out. A region without a file needs none of it, except where Linux counts each page (see
// counted). It is not to be called from two goroutines at once.
func (r *Region) Reserve(n int64) error {
	n = min(n, r.Size())
	if n <= r.reserved || r.path == "" && !counted() {
		return nil
	}
	if err := r.haveRoom(n - r.reserved); err != nil {
		return err
	}
	// Some at once, so that many small pieces cost few calls; where that is too much, what is asked for.
	if r.reserveTo(roundTo(n, reserveAhead)) == nil {
		return nil
	}
	if err := r.reserveTo(roundTo(n, reservePage)); err != nil {
		return r.noRoom(n-r.reserved, err)
	}
	return nil
}

const (
	reserveAhead = 256 << 10
	reservePage  = 1 << 12
	// reservePiece bounds one call: a signal makes some file systems begin a call anew, and what one that
	// failed has taken is not known.
	reservePiece = 64 << 20
)

// reserveTo takes room up to an offset, or to the end of the region. It remembers how far it got.
func (r *Region) reserveTo(end int64) error {
	for end = min(end, r.Size()); r.reserved < end; {
		n := min(end-r.reserved, reservePiece)
		if err := r.take(r.reserved, n); err != nil {
			return err
		}
		r.reserved += n
	}
	return nil
}

// haveRoom asks the file system first: what it cannot hold is not to fill it up for others.
func (r *Region) haveRoom(more int64) error {
	if r.path == "" {
		return nil
	}
	if free, known := freeSpace(r.path); known && free < more {
		return r.noRoom(more, nil)
	}
	return nil
}

// noRoom says that there is none for more bytes, and what helps.
func (r *Region) noRoom(more int64, cause error) error {
	if r.path == "" {
		return fmt.Errorf("shm: %w in region %s for %s: this system gives no more memory than it can be sure to have "+
			"(vm.overcommit_memory=2): %w", ErrNoRoom, r.name, amount.Bytes(more), cause)
	}
	left := " has too little room"
	if free, known := freeSpace(r.path); known {
		left = fmt.Sprintf(" has %s free", amount.Bytes(free))
	}
	err := fmt.Errorf("shm: %w in region %s for %s: %s, where memory lies in files,%s; %s",
		ErrNoRoom, r.name, amount.Bytes(more), filepath.Dir(r.path), left, remedy())
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// remedy says what helps where a folder has no room for memory.
func remedy() string {
	text := "have the environment variable " + temp.Variable() + " name a folder with more"
	if Anonymous() == nil {
		text += ", or take the usual transport, which needs no files, in place of the portable one"
	}
	return text
}

// zero writes zeros where nothing was ever written, which takes the room on every system. It costs a copy.
func zero(f *os.File, from, n int64) error {
	for end := from + n; from < end; {
		wrote, err := f.WriteAt(zeros[:min(end-from, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from += int64(wrote)
	}
	return nil
}

var zeros [1 << 16]byte

func roundTo(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }
