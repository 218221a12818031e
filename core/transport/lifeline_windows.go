package transport

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/windows"
)

// lifeline is empty here: descriptors cannot be inherited, so a plugin waits for the
// host's process instead, and the host asks go-plugin whether the plugin's has ended.
type lifeline struct{ gone chan struct{} }

func newLifeline() (*lifeline, *os.File, error) { return &lifeline{}, nil, nil }

func (l *lifeline) close() error { return nil }

func extraFiles(*os.File, *os.File) []*os.File { return nil }

// keepDescriptors has nothing to do: a process inherits the handles that it is given.
func keepDescriptors() {}

// followHost ends this process, a plugin's, when its host does.
func followHost(*server) error {
	pid, err := strconv.ParseUint(os.Getenv(envHost), 10, 32)
	if err != nil {
		return fmt.Errorf("transport: %s: %w", envHost, err)
	}
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return fmt.Errorf("transport: open the host's process: %w", err)
	}
	go func() {
		// An error means that it cannot be waited for, so it counts as gone too.
		_, _ = windows.WaitForSingleObject(h, windows.INFINITE)
		os.Exit(0)
	}()
	return nil
}

// checkExecutable says what is wrong with a file that cannot be a plugin.
func checkExecutable(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() || !strings.EqualFold(filepath.Ext(path), ".exe") {
		return fmt.Errorf("it is not an executable; its name does not end in .exe")
	}
	return nil
}

// isolate has nothing to do here.
func isolate(*exec.Cmd) {}
