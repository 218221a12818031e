package main

import (
	"os"
	"path/filepath"
	"regexp"
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
	text, err := os.ReadFile(path)
	return err == nil && moduleLine.Match(text)
}

var moduleLine = regexp.MustCompile(`(?m)^\s*module\s+` + regexp.QuoteMeta(module) + `\s*$`)
