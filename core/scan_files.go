package core

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"
)

// files tells which of the files of a scan are one: links to it, or copies. A program can
// do different things under different names, so two of them are asked who they are.
type files struct{ all []*contents }

// contents are what one or more files of a scan hold.
type contents struct {
	info  os.FileInfo // of the first file
	path  string
	start [sha256.Size]byte // a checksum of its first block
	asked []*opening        // two at most, in the order of the scan
}

// asOthers returns why a file cannot be used, if two links to it, or copies, were opened before
// and turned out alike: then it need not be started. It waits for those two. nil means that
// the file is to be opened.
func (f *files) asOthers(o *opening) error {
	c := f.find(o.path)
	if c == nil {
		return nil
	}
	if len(c.asked) < 2 {
		c.asked = append(c.asked, o)
		return nil
	}
	first, second := c.asked[0], c.asked[1]
	<-first.done
	<-second.done
	switch {
	case first.err != nil && second.err != nil:
		return fmt.Errorf("it is the same file as %s, which cannot be used; it was not started: %w", first.path, first.err)
	case first.err == nil && second.err == nil && first.plugin.Manifest().Name == second.plugin.Manifest().Name:
		return fmt.Errorf("%w %q: %s and %s are the same file; it was not started: remove one", ErrDuplicate,
			first.plugin.Manifest().Name, first.path, o.path)
	}
	return nil // it goes by its name
}

// find returns the contents of a file, nil if they cannot be known. Of each file the first block is read, and the rest
// where another begins like it.
func (f *files) find(path string) *contents {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if i := slices.IndexFunc(f.all, func(c *contents) bool { return os.SameFile(c.info, info) }); i >= 0 {
		return f.all[i]
	}
	start := startOf(path)
	for _, c := range f.all {
		if c.info.Size() == info.Size() && c.start == start && equal(c.path, path) {
			return c
		}
	}
	c := &contents{info: info, path: path, start: start}
	f.all = append(f.all, c)
	return c
}

// block is how much of a file is read at once. Different executables mostly differ in the first one, where linkers
// write which build it is.
const block = 4 << 10

// startOf returns a checksum of the first block of a file, or of nothing if it cannot be read.
func startOf(path string) [sha256.Size]byte {
	b := make([]byte, block)
	f, err := os.Open(path)
	if err != nil {
		return sha256.Sum256(nil)
	}
	defer f.Close()
	n, _ := io.ReadFull(f, b)
	return sha256.Sum256(b[:n])
}

// equal reports whether two files can be read, and have the same bytes.
func equal(a, b string) bool {
	f, err := os.Open(a)
	if err != nil {
		return false
	}
	defer f.Close()
	g, err := os.Open(b)
	if err != nil {
		return false
	}
	defer g.Close()
	x, y := make([]byte, 16*block), make([]byte, 16*block)
	for {
		n, err := io.ReadFull(f, x)
		m, other := io.ReadFull(g, y)
		if err != other || !bytes.Equal(x[:n], y[:m]) {
			return false
		}
		if err != nil {
			return err == io.EOF || err == io.ErrUnexpectedEOF
		}
	}
}
