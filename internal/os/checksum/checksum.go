// Package checksum computes the SHA-256 of executables, and notes it for processes to come: it takes as long as
// starting one.
package checksum

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Of returns the SHA-256 of all of a file, hexadecimal.
func Of(f io.ReaderAt) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// State is another one after every write to a file.
type State struct {
	Device, Inode, Size         uint64
	Modified, Changed           int64 // in seconds, and
	ModifiedNanos, ChangedNanos int64
}

// Notes is a folder where processes of one user note checksums for each other, "" for none. Who can write there can
// have any checksum believed: what guards anything by a checksum takes none from there.
type Notes string

// Load returns the checksum that was noted for a file in this state, or "". A note that anything has happened to is
// none.
func (n Notes) Load(s State) string {
	if n == "" {
		return ""
	}
	text, _ := os.ReadFile(n.path(s))
	sum, _, _ := strings.Cut(string(text), " ")
	if string(text) != note(s, sum) {
		return ""
	}
	return sum
}

// Store notes the checksum of a file in this state. Where that cannot be, the next process computes it again.
func (n Notes) Store(s State, sum string) {
	if n == "" {
		return
	}
	if err := os.MkdirAll(string(n), 0o755); err == nil {
		_ = os.WriteFile(n.path(s), []byte(note(s, sum)), 0o644)
	}
}

func (n Notes) path(s State) string {
	return filepath.Join(string(n), hashed(fmt.Sprint(s))+".sum")
}

// note is what a note holds: the checksum, and what tells that both are whole.
func note(s State, sum string) string {
	return sum + " " + hashed(fmt.Sprint(s, sum)) + "\n"
}

func hashed(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}
