package transport

import (
	"os"
	"os/exec"
)

// lifeline is empty here: descriptors cannot be inherited, so a plugin waits for the
// host's process instead, and the host asks go-plugin whether the plugin's has ended.
type lifeline struct{ gone chan struct{} }

func newLifeline() (*lifeline, *os.File, error) { return &lifeline{}, nil, nil }

func (l *lifeline) close() error { return nil }

func extraFiles(*os.File, *os.File) []*os.File { return nil }

// keepDescriptors has nothing to do: a process inherits the handles that it is given.
func keepDescriptors() {}

// isolate has nothing to do here.
func isolate(*exec.Cmd) {}
