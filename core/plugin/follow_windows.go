package plugin

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/windows"

	"github.com/seed98097648/tune/internal/wire"
)

// followHost ends this process when the host's does: descriptors cannot be inherited here,
// so that there is no lifeline.
func followHost(*server) error {
	pid, err := strconv.ParseUint(os.Getenv(wire.EnvHost), 10, 32)
	if err != nil {
		return fmt.Errorf("transport: %s: %w", wire.EnvHost, err)
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
