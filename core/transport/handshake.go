package transport

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/seed98097648/tune/core/transport/proto"
)

// ProtocolVersion is the version of everything two processes must agree on: the
// messages in proto, the call record, and what descriptors mean. It changes with any
// of them.
const ProtocolVersion = 4

// The cookie keeps a plugin that is run by hand from waiting for a host that is not
// there. It is no secret.
const (
	cookieKey   = "TUNE_PLUGIN"
	cookieValue = "kernels"
)

// What a host tells its plugins through the environment.
const (
	envLink    = "TUNE_LINK"     // linkDoorbell, or linkRPC
	envSpin    = "TUNE_SPIN"     // how long to spin before sleeping, a time.Duration
	envThreads = "TUNE_THREADS"  // limit of threads, 0 for all cores
	envHost    = "TUNE_HOST_PID" // process of the host, where no lifeline can be inherited
)

const (
	linkDoorbell = "doorbell"
	linkRPC      = "rpc"
)

// service is the one thing a plugin serves, in go-plugin's terms.
const service = "kernels"

func handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: cookieKey, MagicCookieValue: cookieValue}
}

// glue joins go-plugin with the generated gRPC code, on both sides.
type glue struct {
	goplugin.NetRPCUnsupportedPlugin
	server proto.KernelsServer // nil in the host
}

var _ goplugin.GRPCPlugin = (*glue)(nil)

// GRPCServer registers the server in the plugin.
func (g *glue) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if g.server == nil {
		return errors.New("transport: no server")
	}
	proto.RegisterKernelsServer(s, g.server)
	return nil
}

// GRPCClient makes the host's client.
func (g *glue) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return proto.NewKernelsClient(c), nil
}
