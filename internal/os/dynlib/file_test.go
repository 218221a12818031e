package dynlib

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestAFileThatWouldEndTheProcessIsRefused, as one that is cut off does when it is loaded.
func TestAFileThatWouldEndTheProcessIsRefused(t *testing.T) {
	self, err := os.Executable() // an ELF file of 64 bits as a library is one
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cut := "it is cut off"
	if string(whole[:4]) != "\x7fELF" || ^uint(0)>>32 == 0 || runtime.GOARCH == "s390x" {
		cut = ""
	}
	for name, tt := range map[string]struct{ path, want string }{
		"a folder":        {dir, "it is not a regular file"},
		"half of it":      {file("half.so", whole[:len(whole)/2]), cut},
		"its first page":  {file("page.so", whole[:4096]), cut},
		"all of it":       {self, ""},
		"not even a head": {file("head.so", whole[:20]), ""}, // which the loader can tell
		"text":            {file("text.so", []byte("no library")), ""},
		"nothing":         {filepath.Join(dir, "none.so"), ""},
		"not by its path": {"libnone.so", ""},
	} {
		err := checkFile(tt.path)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("Open: error %v", err)
	}
}
