package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAnotherModuleIsNoCheckout(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if root, ok := checkout(dir); ok {
		t.Errorf("another module at %s was taken for ours", root)
	}
}
