package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// moreFiles is the remedy where no further file can be opened.
const moreFiles = "raise the limit of open files (ulimit -n)"

// outOfFiles reports whether an error is for want of descriptors.
func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// explainFiles adds the remedy to an error that is for want of descriptors, wherever it is from.
func explainFiles(err error) error {
	if !outOfFiles(err) || strings.Contains(err.Error(), "ulimit -n") {
		return err
	}
	return fmt.Errorf("%w; %s", err, moreFiles)
}

// spareFiles is how many files a run may open at once beside those that are open when it starts: for what it
// saves, and for a plugin that has to be started again.
const spareFiles = 16

// checkSpareFiles finds out before the first step what would otherwise be found when the model is to be saved.
func checkSpareFiles() error {
	for n := range spareFiles {
		f, err := os.Open(os.DevNull)
		if outOfFiles(err) {
			return fmt.Errorf("only %d of the %d files that a run may have to open beside those that are open now can be "+
				"opened: %w; %s, or use fewer plugins", n, spareFiles, err, moreFiles)
		}
		if err != nil { // it is not there, which says nothing about room
			return nil
		}
		defer f.Close()
	}
	return nil
}
