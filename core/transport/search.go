package transport

import (
	"os"
	"path/filepath"
)

// SearchPath returns the folders to look for plugins in, whether they exist or not. An
// explicit folder is the only one. Otherwise they are, in this order: those listed in
// $TUNE_PLUGIN_DIR, plugins beside the executable, and tune/plugins in the user's
// configuration folder.
func SearchPath(explicit string) []string {
	if explicit != "" {
		return []string{explicit}
	}
	dirs := filepath.SplitList(os.Getenv("TUNE_PLUGIN_DIR"))
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Join(filepath.Dir(exe), "plugins"))
	}
	if config, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(config, "tune", "plugins"))
	}
	return dirs
}
