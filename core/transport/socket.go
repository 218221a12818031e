package transport

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

const (
	// maxSocketPath is the longest path that a local socket can have everywhere, in bytes:
	// macOS has the least room for it.
	maxSocketPath = 103
	// socketSuffix is the longest that comes behind the folder for temporary files: a
	// folder of ours, and the name that go-plugin gives the socket.
	socketSuffix = len("/tune-4294967295/plugin4294967295")
)

// shortFolders are where sockets go if the folder for temporary files has too long a path.
var shortFolders = []string{"/tmp", "/var/tmp"}

// makeSocketFolder makes a folder where only this user can connect, and whose path leaves
// room for the name of a socket.
func makeSocketFolder() (string, error) {
	base := os.TempDir()
	if runtime.GOOS == "windows" || len(base)+socketSuffix <= maxSocketPath { // no local sockets on Windows
		dir, err := os.MkdirTemp(base, "tune-")
		if err != nil {
			err = fmt.Errorf("%w; have the environment variable TMPDIR name a folder that can be written to", err)
		}
		return dir, err
	}
	err := fmt.Errorf("the path of the folder for temporary files has %d bytes, and one with a socket in it can have %d; have the environment variable TMPDIR name a folder with a shorter path",
		len(base), maxSocketPath-socketSuffix)
	for _, short := range shortFolders {
		dir, cause := os.MkdirTemp(short, "tune-")
		if cause == nil {
			return dir, nil
		}
		err = errors.Join(err, cause)
	}
	return "", err
}
