// Package wire is what a host and its kernel plugins agree on: the handshake, the control
// memory with its two bells, the record of a call, and the texts of all other requests.
// core/transport is the host's side, core/plugin the plugin's; neither knows the other.
// docs/protocol.md says the same for plugins in other languages.
package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// ProtocolVersion is the version of all that two processes must agree on: this package, the
// gRPC service, and what descriptors mean. It changes with any of them.
const ProtocolVersion = 5

// The cookie keeps a plugin that is run by hand from waiting for a host that is not there.
// It is no secret.
const (
	CookieKey   = "TUNE_PLUGIN"
	CookieValue = "kernels"
)

// What a host tells its plugins through the environment.
const (
	EnvLink    = "TUNE_LINK"     // LinkDoorbell, or LinkRPC
	EnvSpin    = "TUNE_SPIN"     // how long to spin before sleeping, a time.Duration
	EnvThreads = "TUNE_THREADS"  // limit of threads, 0 for all cores
	EnvKeep    = "TUNE_KEEP"     // most bytes to keep of what was made of inputs; unset: the host names no contents
	EnvHost    = "TUNE_HOST_PID" // process of the host, where no lifeline can be inherited
	EnvBuiltIn = "TUNE_BUILT_IN" // which of its own plugins a program is to be, if it has any
)

// The ways that requests take, and what a plugin calls each in go-plugin's handshake.
const (
	LinkDoorbell = "doorbell"
	LinkRPC      = "rpc"

	GreetDoorbell = "bare"
	GreetRPC      = "grpc"
)

// Descriptors that a plugin inherits, where descriptors can be inherited.
const (
	LifelineFD = 3 // one end of a socket pair, whose other end is the host's
	ControlFD  = 4 // the control memory of a doorbell
)

// Lifeline makes a connection of an end of the lifeline, which it takes over.
func Lifeline(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("transport: lifeline: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("transport: lifeline is not a local socket"), c.Close())
	}
	return u, nil
}

// A message about a region has PassSize bytes: region (4), what to do with it (4), size (8).
// The region's descriptor travels with it, unless it is to be unmapped. The plugin answers
// with one byte, 0 or 1, and the text of the error: at most MaxPassAnswer bytes. Only one is
// under way at a time.
const (
	PassSize      = 16
	MaxPassAnswer = 512
)

// What a message about a region asks of the plugin.
const (
	MapReadOnly uint32 = iota
	MapWritable
	UnmapRegion
)
