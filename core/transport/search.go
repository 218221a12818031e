package transport

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// module is the path of the module that this package belongs to.
const module = "github.com/seed98097648/tune"

// SearchPath returns the folders to look for plugins in, whether they exist or not. An
// explicit folder is the only one. Otherwise they are, in this order: those listed in
// $TUNE_PLUGIN_DIR, plugins beside the executable, bin/plugins of the checkout that the
// working directory is in, and tune/plugins in the user's configuration folder.
func SearchPath(explicit string) []string {
	if explicit != "" {
		return []string{explicit}
	}
	dirs := filepath.SplitList(os.Getenv("TUNE_PLUGIN_DIR"))
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Join(filepath.Dir(exe), "plugins"))
	}
	if wd, err := os.Getwd(); err == nil {
		if root, ok := Checkout(wd); ok {
			dirs = append(dirs, filepath.Join(root, "bin", "plugins"))
		}
	}
	if config, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(config, "tune", "plugins"))
	}
	return dirs
}

// Checkout returns the root of this module's checkout that dir lies in, if it does.
func Checkout(dir string) (string, bool) {
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
