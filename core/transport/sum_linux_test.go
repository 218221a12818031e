package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/core/trust"
	"github.com/seed98097648/tune/internal/os/checksum"
)

// TestAChecksumIsOfWhatAFileHoldsNow: it is remembered, but not over a write, in whatever way, also where the file is
// as long as before and says that it is as old.
func TestAChecksumIsOfWhatAFileHoldsNow(t *testing.T) {
	t.Parallel() // it waits
	path := filepath.Join(t.TempDir(), "plugin")
	content := []byte("#!/bin/sh\nexit 1\n")
	if err := os.WriteFile(path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	written := func() error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(path, content, 0o700), os.Chtimes(path, info.ModTime(), info.ModTime()))
	}
	for _, write := range []func() error{nil, written, func() error { return writeMapped(path, content) }} {
		if write != nil {
			content[len(content)-2]++
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(checksum.Settled + 100*time.Millisecond)
		exe, err := openExecutable(native, path, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { exe.Close() })
		state, known := exe.state(exe.File)
		if !known {
			t.Skip("no leases here")
		}
		_, before := checksums.Load(state)
		want := sha256.Sum256(content)
		if sum, err := exe.checksum(); err != nil || sum != hex.EncodeToString(want[:]) {
			t.Errorf("the checksum of %q is that of other contents; %v", content, err)
		}
		if _, after := checksums.Load(state); before || !after {
			t.Errorf("the checksum of %q is remembered: before %v, then %v", content, before, after)
		}
		exe.Close() // its lease holds up who writes
	}
}

// TestANotedChecksumIsBelievedWithoutALock, and by nobody who guards anything by it.
func TestANotedChecksumIsBelievedWithoutALock(t *testing.T) {
	t.Parallel() // it waits
	path, _ := telltale(t)
	time.Sleep(checksum.Settled + 100*time.Millisecond)
	sumWith := func(o Options) (string, checksum.State) {
		t.Helper()
		exe, err := openExecutable(native, path, o.notes())
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		state, known := exe.state(exe.File)
		if !known {
			t.Skip("no leases here")
		}
		checksums.Delete(state) // as a process to come
		sum, err := exe.checksum()
		if err != nil {
			t.Fatal(err)
		}
		return sum, state
	}
	dir := t.TempDir()
	right, state := sumWith(Options{CacheDir: dir})
	if noted := checksum.Notes(dir).Load(state); noted != right {
		t.Errorf("the checksum is %s, and noted as %q", right, noted)
	}
	checksum.Notes(dir).Store(state, "another")
	for want, o := range map[string]Options{"another": {CacheDir: dir}, right: {CacheDir: dir, Lock: new(trust.Lock)}} {
		if sum, _ := sumWith(o); sum != want {
			t.Errorf("with a lock: %v; the checksum is %q, want %q", o.Lock != nil, sum, want)
		}
	}
	if sum, _ := sumWith(Options{CacheDir: "off"}); sum != right {
		t.Errorf("without a folder the checksum is %q", sum)
	}
}

// TestAChecksumIsNotRememberedWhileSomebodyWrites: through a mapping, of which no time tells.
func TestAChecksumIsNotRememberedWhileSomebodyWrites(t *testing.T) {
	t.Parallel() // it waits
	path, _ := telltale(t)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	time.Sleep(checksum.Settled + 100*time.Millisecond)
	exe, err := openExecutable(native, path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if _, known := exe.state(exe.File); known {
		t.Error("a file that is open to be written counts as one that nobody writes to")
	}
}

// writeMapped writes content over a file of its length, through a mapping.
func writeMapped(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(mem, content)
	return unix.Munmap(mem)
}
