package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// module is the path of the module that this program belongs to.
const module = "github.com/seed98097648/tune"

// checkout returns the root of this module's checkout that dir lies in, if it does.
func checkout(dir string) (string, bool) {
	for {
		if isModule(filepath.Join(dir, "go.mod")) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// isModule reports whether a go.mod file is this module's.
func isModule(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, ok := strings.CutPrefix(strings.TrimSpace(s.Text()), "module "); ok {
			return strings.TrimSpace(name) == module
		}
	}
	return false
}
