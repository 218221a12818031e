package transport

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Folders returns those of SearchPath that there are, each once, for core.ScanAllKernels. One
// that somebody named, here or in $TUNE_PLUGIN_DIR, is there in any case: that it is missing
// is for the scan to report.
func Folders(explicit string) []string {
	named := append(filepath.SplitList(os.Getenv("TUNE_PLUGIN_DIR")), explicit)
	var dirs []string
	var seen []fs.FileInfo
	for _, dir := range SearchPath(explicit) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !slices.Contains(named, dir), slices.Contains(dirs, dir):
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
