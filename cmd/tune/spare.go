package main

import (
	"fmt"
	"os"

	"github.com/seed98097648/tune/internal/os/plainfile"
)

// spareFiles is how many files a run may open at once beside those that are open when it starts: for what it
// saves, and for a plugin that has to be started again.
const spareFiles = 16

// checkSpareFiles finds out before the first step what would otherwise be found when the model is to be saved.
func checkSpareFiles() error {
	for n := range spareFiles {
		f, err := os.Open(os.DevNull)
		if remedy := plainfile.MoreFiles(err); remedy != "" {
			return fmt.Errorf("only %d of the %d files that a run may have to open beside those that are open now can be "+
				"opened: %w; %s, or use fewer plugins", n, spareFiles, err, remedy)
		}
		if err != nil { // it is not there, which says nothing about room
			return nil
		}
		defer f.Close()
	}
	return nil
}
