//go:build !unix && !windows

package checkpoint

import (
	"errors"
	"os"
)

func lockFile(*os.File) error { return errNoLocks }

func removeClaim(name string, f *os.File) error {
	var err error
	if f != nil {
		err = f.Close()
	}
	return errors.Join(err, os.Remove(name))
}

// alive takes every process for one that runs, as nothing tells here.
func alive(int) bool { return true }
