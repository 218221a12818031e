package plainfile

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// MoreFiles is the remedy for an error that is for want of descriptors, of this process or of all, and "" for
// another one. Windows has no such limits.
func MoreFiles(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "raise the limit of open files (ulimit -n)"
	case errors.Is(err, syscall.ENFILE):
		return "raise the system's limit of open files (fs.file-max)"
	}
	return ""
}

// ExplainFiles adds that remedy to an error, or the one for a file that may not be so large, unless it has it.
func ExplainFiles(err error) error {
	remedy := MoreFiles(err)
	if errors.Is(err, syscall.EFBIG) {
		remedy = "raise the limit of a file's size (ulimit -f), or take a disk whose file system has none, as FAT has"
	}
	if remedy == "" || strings.Contains(err.Error(), remedy) {
		return err
	}
	return fmt.Errorf("%w; %s", err, remedy)
}
