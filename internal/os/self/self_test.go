package self

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestChecksumIsThatOfTheFile(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(b); Checksum() != hex.EncodeToString(sum[:]) {
		t.Errorf("%s, want %x", Checksum(), sum)
	}
}

// TestOnlyTheFileThatRunsIsTheProgram: not a copy, which somebody can write to.
func TestOnlyTheFileThatRunsIsTheProgram(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link, copied := filepath.Join(dir, "link"), filepath.Join(dir, "copy")
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(copied, b, 0o700)
	}
	if err == nil {
		err = os.Symlink(path, link)
	}
	if err != nil {
		t.Skip(err) // Windows asks a privilege for links
	}
	for file, want := range map[string]bool{path: true, link: true, copied: false} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := Is(info); got != (want && runtime.GOOS == "linux") {
			t.Errorf("%s: %v", file, got)
		}
	}
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); runtime.GOOS == "linux" && err == nil {
		f.Close()
		t.Error("the file of a running program can be written to")
	}
}
