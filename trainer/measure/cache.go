package measure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/checksum"
	"github.com/seed98097648/tune/internal/os/cpu"
	"github.com/seed98097648/tune/internal/os/self"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// key is all that a measurement depends on. Its hash names the file of an entry.
type key struct {
	Plugin  string `json:"plugin"`  // SHA-256 of the executable with the kernel
	Program string `json:"program"` // of the one with the plain forward: this one
	CPU     string `json:"cpu"`
	Variant string `json:"variant"` // of package simd
	Threads int    `json:"threads"`

	Kernel       string     `json:"kernel"`
	Summary      string     `json:"summary"` // which names the library and the device that a kernel has found
	Op           core.Op    `json:"op"`
	Facts        core.Facts `json:"facts"`
	RowsPerToken int        `json:"rows_per_token"`
	Batch        int        `json:"batch"`
	Seq          int        `json:"seq"`
	MaxPosition  int        `json:"max_position"`
	Inference    bool       `json:"inference"`
	Keepless     bool       `json:"keepless,omitempty"`
}

// entry is the content of a file.
type entry struct {
	Key         key              `json:"key"`
	Measurement core.Measurement `json:"measurement"`
}

// key returns the key of a use, and false where nothing identifies the kernel, as when it
// is linked in, or this program.
func (s *session) key(u use) (key, bool) {
	name, summary := u.kernel.Info().Name, u.kernel.Info().Summary
	plugin, _ := s.reg.Find(name)
	k := key{Plugin: plugin.Manifest.Checksum, CPU: cpu.Name(), Variant: simd.Instructions(), Threads: simd.Threads(),
		Kernel: name, Summary: summary, Op: u.op, Facts: u.facts, RowsPerToken: u.rowsPerToken,
		Batch: s.run.Batch, Seq: s.run.Seq, MaxPosition: s.run.MaxPosition, Inference: s.run.Inference,
		Keepless: s.run.Keepless}
	if s.cache.dir == "" || k.Plugin == "" {
		return k, false
	}
	k.Program = s.cache.program()
	return k, k.Program != ""
}

// cache is a folder of entries.
type cache struct {
	dir     string        // "" for none
	program func() string // the checksum of this program, "" if unknown
}

func newCache(o Options) *cache {
	c := &cache{dir: o.CacheDir}
	switch o.CacheDir {
	case "off":
		c.dir = ""
	case "":
		if base, err := os.UserCacheDir(); err == nil { // no home: measure in every run
			c.dir = filepath.Join(base, "tune", "measured")
		}
	}
	c.program = func() string { return self.Noted(checksum.Notes(c.dir)) }
	return c
}

// path returns the file of a key.
func (c *cache) path(k key) (string, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return filepath.Join(c.dir, hex.EncodeToString(sum[:])+".json"), nil
}

// load returns the measurement of a key. One that is missing, or that anything has
// happened to, is no measurement.
func (c *cache) load(k key) (core.Measurement, bool) {
	path, err := c.path(k)
	if err != nil {
		return core.Measurement{}, false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return core.Measurement{}, false
	}
	return parse(b, k)
}

// parse reads an entry and checks that it is the key's and can be true.
func parse(b []byte, k key) (core.Measurement, bool) {
	var e entry
	if err := json.Unmarshal(b, &e); err != nil || e.Key != k {
		return core.Measurement{}, false
	}
	m := e.Measurement
	if m.Plain <= 0 || m.Kernel <= 0 || m.PlainBytes < 0 || m.KernelBytes < 0 || m.Tokens != k.Batch*k.Seq {
		return core.Measurement{}, false
	}
	return m, true
}

// store writes an entry. Whoever reads meanwhile, or writes the same, sees a whole file:
// it appears under its name at once.
func (c *cache) store(k key, m core.Measurement) error {
	path, err := c.path(k)
	if err == nil {
		err = writeEntry(path, entry{k, m})
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err // without its path, the text is the same for every entry
	}
	return err
}

func writeEntry(path string, e entry) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return checkpoint.WriteFileAtomic(path, append(b, '\n'), 0o600)
}
