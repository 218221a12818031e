// Package plugin is what a kernel plugin links: Serve is the whole of its main function.
//
// The host, package core/transport, starts the process, asks who it is, and calls its kernels
// through shared memory; where there is no doorbell, as on macOS and Windows, over a socket. The two
// share package internal/wire and nothing else, so that a plugin has neither the host's side
// in it nor the conformance kit. docs/protocol.md has every byte.
//
// # Memory
//
// Tensors lie in regions that both processes map: those of the host for reading only, the
// plugin's own outputs for writing. A region comes before the first call that names it, and
// goes when the host has closed it.
//
// # Life
//
// The process ends when the host says so or is gone, however that ended, also during a call.
// A kernel that panics gives an error to the host; any other death is the host's to repeat.
package plugin

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/wire"
)

// Offer is a plugin: the kernels that it offers under its name and version.
type Offer struct {
	Name, Version string
	Kernels       []core.Kernel
}

// Serve is the whole main function of a plugin. It offers the kernels, under the one
// name and version of the plugin, to the host that started the process, and does not return:
// the process exits when the host says so or is gone, or at once with a line of help when a
// person started it.
func Serve(name, version string, kernels ...core.Kernel) {
	ServeLoaded(name, version, func() ([]core.Kernel, error) { return kernels, nil })
}

// ServeBuiltIn is Serve for the plugins that BuiltIn has named: all of them in one process, so that calls of one may
// follow calls of another without the host between them.
func ServeBuiltIn(offers ...Offer) {
	s := newServer(offers...)
	s.host = takeStdout()
	s.serveAndExit()
}

// ServeLoaded is Serve for kernels that need something loaded first, such as a library of the machine: whatever prints
// to standard output meanwhile, in Go or in C, does not get between the host and the plugin. An error of load goes to
// standard error, and ends the process.
func ServeLoaded(name, version string, load func() ([]core.Kernel, error)) {
	asked, host := os.Getenv(wire.CookieKey) == wire.CookieValue, os.Stdout
	if asked {
		host = takeStdout()
	}
	kernels, err := load()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	if !asked {
		fmt.Fprintf(os.Stderr, "%s %s is a kernel plugin of tune; it is not run by hand.\n"+
			"Put it into a plugin folder and name that: tune --plugin-dir FOLDER ...\n", name, version)
		os.Exit(1)
	}
	s := newServer(Offer{name, version, kernels})
	s.host = host
	s.serveAndExit()
}

func (s *server) serveAndExit() {
	if err := serve(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// BuiltIn returns the names of the plugins that this process is to be, if a host has started it
// as such that are part of the host's own program; see core.BuiltIn. The process is then to call
// ServeBuiltIn and nothing else.
func BuiltIn() (names []string, asked bool) {
	text, asked := os.LookupEnv(wire.EnvBuiltIn)
	return strings.Split(text, ","), asked && os.Getenv(wire.CookieKey) == wire.CookieValue
}

func serve(s *server) error {
	if n, err := strconv.Atoi(os.Getenv(wire.EnvThreads)); err == nil && n > 0 {
		runtime.GOMAXPROCS(n)
	}
	memory.Save()
	signal.Ignore(os.Interrupt) // typed at the terminal, it is for the host
	if err := followHost(s); err != nil {
		return err
	}
	if os.Getenv(wire.EnvLink) == wire.LinkDoorbell {
		return answerDoorbell(s)
	}
	return answerRPC(s)
}

// greet shakes hands, in go-plugin's one line: where and how requests come, and the
// certificate of who listens there.
func (s *server) greet(network, address, way, certificate string) {
	fmt.Fprintf(s.host, "1|%d|%s|%s|%s|%s\n", wire.ProtocolVersion, network, address, way, certificate)
}
