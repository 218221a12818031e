package main

import (
	"path/filepath"
	"testing"
)

func TestGoRunIsKnownByItsExecutable(t *testing.T) {
	t.Setenv("GOCACHE", filepath.FromSlash("/big/cache"))
	for exe, want := range map[string]bool{
		"/tmp/go-build1234/b001/exe/tune":         true,
		"/home/me/.cache/go-build/ab/ab12-d/tune": true,
		"/big/cache/ab/ab12-d/tune":               true,
		"/usr/local/bin/tune":                     false,
		"/home/me/cache/tune":                     false,
		"/home/me/go/bin/go-build-tools":          false,
		"/big/cachet/tune":                        false,
	} {
		if got := isGoRun(filepath.FromSlash(exe)); got != want {
			t.Errorf("%s: %v, want %v", exe, got, want)
		}
	}
}
