package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/seed98097648/tune/internal/os/temp"
)

const (
	// maxSocketPath is the longest path that a local socket can have everywhere, in bytes:
	// macOS has the least room for it.
	maxSocketPath = 103
	// socketSuffix is the longest that comes behind the folder for temporary files: a
	// folder of ours, and the name that go-plugin gives the socket.
	socketSuffix = len("/tune-s4294967295/plugin4294967295")
)

// shortFolders are where sockets go if the folder for temporary files has too long a path, is not there, or cannot be
// written to.
var shortFolders = []string{"/tmp", "/var/tmp"}

// socketFolders is the pattern of the folders' names.
const socketFolders = "tune-s*"

// makeSocketFolder makes a folder where only this user can connect, and whose path leaves
// room for the name of a socket.
func makeSocketFolder() (dir string, remove func() error, err error) {
	base, err := filepath.Abs(os.TempDir()) // a plugin runs in another folder
	if err != nil {
		return "", nil, err
	}
	bases := []string{base}
	if runtime.GOOS != "windows" { // which has no local sockets
		bases = slices.Compact(append(bases, shortFolders...))
		if len(base)+socketSuffix > maxSocketPath {
			bases = shortFolders
			err = fmt.Errorf("the path of the folder for temporary files has %d bytes, and one with a socket in it can have %d",
				len(base), maxSocketPath-socketSuffix)
		}
	}
	for _, base := range bases {
		dir, remove, cause := temp.Folder(base, socketFolders)
		switch {
		case cause == nil:
			return dir, remove, nil
		case outOfFiles(cause): // of which no other folder has more
			return "", nil, cause
		case err == nil:
			err = cause
		default:
			err = fmt.Errorf("%w, nor otherwise: %w", err, cause)
		}
	}
	return "", nil, fmt.Errorf("%w; have the environment variable %s name a folder with a short path that can be "+
		"written to", err, temp.Variable())
}
