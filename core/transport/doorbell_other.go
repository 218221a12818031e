//go:build !linux

package transport

import "time"

// doorman has nothing to answer: no host here has a doorbell.
func doorman(*server, time.Duration) error { return errNoDoorbell }
