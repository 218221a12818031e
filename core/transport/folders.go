package transport

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Folders returns those of SearchPath that there are, each once, for core.ScanAllKernels. One
// that somebody named, here or in $TUNE_PLUGIN_DIR, is there in any case: that it is missing, or
// no folder, is for the scan to report. Another file of that name means nothing, nor does what is on the way to it: a
// user's home may be /dev/null, or someone else's.
func Folders(explicit string) []string {
	named := append(listed(), explicit)
	var dirs []string
	var seen []fs.FileInfo
	for _, dir := range SearchPath(explicit) {
		info, err := os.Stat(dir)
		absent := err == nil && !info.IsDir() || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) ||
			errors.Is(err, fs.ErrPermission)
		switch {
		case absent && !slices.Contains(named, dir), slices.Contains(dirs, dir):
			continue
		case err == nil && slices.ContainsFunc(seen, func(s fs.FileInfo) bool { return os.SameFile(s, info) }):
			continue
		case err == nil:
			seen = append(seen, info)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// SearchPath returns the folders to look for plugins in, whether they exist or not. An
// explicit folder is the only one. Otherwise they are, in this order: those listed in
// $TUNE_PLUGIN_DIR, where an empty name is none, plugins beside the executable, and tune/plugins in the user's
// configuration folder.
func SearchPath(explicit string) []string {
	if explicit != "" {
		return []string{explicit}
	}
	dirs := listed()
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Join(filepath.Dir(exe), "plugins"))
	}
	if config, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(config, "tune", "plugins"))
	}
	return dirs
}

// listed returns the folders of $TUNE_PLUGIN_DIR. What has no name is none: an empty variable that was put before
// another folder leaves a separator at the beginning.
func listed() []string {
	return slices.DeleteFunc(filepath.SplitList(os.Getenv("TUNE_PLUGIN_DIR")), func(dir string) bool { return dir == "" })
}
