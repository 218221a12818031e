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
// that somebody named, here or in $TUNE_PLUGIN_DIR, is there in any case: that it is missing
// is for the scan to report. Others are not there either if something on their way is no folder, as for a user
// whose home is /dev/null, or is closed to this user, as a home that is someone else's.
func Folders(explicit string) []string {
	named := append(filepath.SplitList(os.Getenv("TUNE_PLUGIN_DIR")), explicit)
	var dirs []string
	var seen []fs.FileInfo
	for _, dir := range SearchPath(explicit) {
		info, err := os.Stat(dir)
		switch {
		case absent(err) && !slices.Contains(named, dir), slices.Contains(dirs, dir):
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

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission)
}

// SearchPath returns the folders to look for plugins in, whether they exist or not. An
// explicit folder is the only one. Otherwise they are, in this order: those listed in
// $TUNE_PLUGIN_DIR, where an empty name is none, plugins beside the executable, and tune/plugins in the user's
// configuration folder.
func SearchPath(explicit string) []string {
	if explicit != "" {
		return []string{explicit}
	}
	empty := func(dir string) bool { return dir == "" }
	dirs := slices.DeleteFunc(filepath.SplitList(os.Getenv("TUNE_PLUGIN_DIR")), empty)
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Join(filepath.Dir(exe), "plugins"))
	}
	if config, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(config, "tune", "plugins"))
	}
	return dirs
}
