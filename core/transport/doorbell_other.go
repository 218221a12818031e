//go:build !linux

package transport

import (
	"errors"
	"os"
	"time"
)

const hasDoorbell = false

// errNoDoorbell: calls go by RPC here; see Options.Portable.
var errNoDoorbell = errors.New("transport: this system has no doorbell")

func newDoorbell(*lifeline, time.Duration) (*rpcLink, *os.File, error) {
	return nil, nil, errNoDoorbell
}

func doorman(*server, time.Duration) error { return errNoDoorbell }
