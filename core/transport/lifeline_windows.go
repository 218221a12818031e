package transport

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lifeline is empty here: descriptors cannot be inherited, so a plugin waits for the
// host's process instead, and the host asks go-plugin whether the plugin's has ended.
type lifeline struct{ gone chan struct{} }

func newLifeline() (*lifeline, *os.File, error) { return &lifeline{}, nil, nil }

func (l *lifeline) close() error { return nil }

func extraFiles(*os.File, *os.File) []*os.File { return nil }

// keepDescriptors has nothing to do: a process inherits the handles that it is given.
func keepDescriptors() {}

// checkExecutable says what is wrong with a file that cannot be a plugin.
func checkExecutable(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() || !strings.EqualFold(filepath.Ext(path), ".exe") {
		return fmt.Errorf("it is not an executable; its name does not end in .exe")
	}
	return nil
}

// isolate has nothing to do here.
func isolate(*exec.Cmd) {}
