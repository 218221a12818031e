//go:build !linux

package plugin

import "errors"

// answerDoorbell has nothing to answer: no host here has a doorbell.
func answerDoorbell(*server) error { return errors.New("transport: this system has no doorbell") }
