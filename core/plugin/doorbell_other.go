//go:build !linux

package plugin

import (
	"errors"
	"net"
)

// answerDoorbell has nothing to answer: no host here has a doorbell.
func answerDoorbell(*server) error { return errors.New("transport: this system has no doorbell") }

// receive has nothing to do: regions come as paths here.
func receive(*net.UnixConn, *server) {}
