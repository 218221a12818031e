package transport

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"

	"github.com/seed98097648/tune/core"
)

// Serve is the whole main function of a plugin. It offers the kernels, under the one
// name and version of the plugin, to the host that started the process, and returns
// when the host says so. The process exits when the host is gone, or at once with a
// line of help when a person started it.
func Serve(name, version string, kernels ...core.Kernel) {
	if os.Getenv(cookieKey) != cookieValue {
		fmt.Fprintf(os.Stderr, "%s %s is a kernel plugin of tune; it is not run by hand.\n"+
			"Put it into a plugin folder and name that: tune --plugin-dir FOLDER ...\n", name, version)
		os.Exit(1)
	}
	if err := serve(newServer(name, version, kernels)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// garbage is how large the garbage of a plugin may be, in percent of what is in use. That
// is mostly scratch memory, which stays: collecting is cheap, and memory is not.
const garbage = 20

func serve(s *server) error {
	if n, err := strconv.Atoi(os.Getenv(envThreads)); err == nil && n > 0 {
		runtime.GOMAXPROCS(n)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if err := followHost(s); err != nil {
		return err
	}
	if os.Getenv(envLink) == linkDoorbell {
		spin, err := time.ParseDuration(os.Getenv(envSpin))
		if err != nil {
			return fmt.Errorf("transport: %s: %w", envSpin, err)
		}
		if err := doorman(s, spin); err != nil {
			return err
		}
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake(),
		Plugins:         goplugin.PluginSet{service: &glue{server: s}},
		// gRPC's limit of 4 MiB for a received message is left alone: the largest
		// message is a call record, of at most controlSize.
		GRPCServer: goplugin.DefaultGRPCServer,
		Logger:     hclog.New(&hclog.LoggerOptions{Level: hclog.Error, JSONFormat: true}),
	})
	return nil
}
