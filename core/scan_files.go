package core

import (
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
	info   os.FileInfo // of the first file
	path   string
	sum    [sha256.Size]byte
	summed bool
	asked  []*opening // two at most, in the order of the scan
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

// find returns the contents of a file, nil if they cannot be known. Only files of one size
// are read.
func (f *files) find(path string) *contents {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if i := slices.IndexFunc(f.all, func(c *contents) bool { return os.SameFile(c.info, info) }); i >= 0 {
		return f.all[i]
	}
	c := &contents{info: info, path: path}
	for _, other := range f.all {
		if other.info.Size() == info.Size() && other.checksum() && c.checksum() && other.sum == c.sum {
			return other
		}
	}
	f.all = append(f.all, c)
	return c
}

// checksum reports whether the sum is known.
func (c *contents) checksum() bool {
	if c.summed {
		return true
	}
	file, err := os.Open(c.path)
	if err != nil {
		return false
	}
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, file)
	h.Sum(c.sum[:0])
	c.summed = err == nil
	return c.summed
}
