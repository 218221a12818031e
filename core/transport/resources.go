package transport

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// errResources is why a plugin that may be fine is not started.
var errResources = errors.New("a limit of this process or machine is reached")

// moreFiles is the remedy where no further file can be opened.
const moreFiles = "raise the limit of open files (ulimit -n), or use fewer plugins"

// outOfFiles reports whether an error is for want of descriptors.
func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// explainFiles adds the remedy to an error that is for want of descriptors.
func explainFiles(err error) error {
	if !outOfFiles(err) || strings.Contains(err.Error(), moreFiles) {
		return err
	}
	return fmt.Errorf("%w; %s", err, moreFiles)
}
