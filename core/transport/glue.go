package transport

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/wire"
)

// ProtocolVersion is the version of everything that a host and a plugin must agree on. A
// plugin of another version has to be rebuilt.
const ProtocolVersion = wire.ProtocolVersion

// service is the one thing a plugin serves, in go-plugin's terms.
const service = "kernels"

func handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: wire.CookieKey,
		MagicCookieValue: wire.CookieValue}
}

// glue joins go-plugin with the generated gRPC code.
type glue struct {
	goplugin.NetRPCUnsupportedPlugin
}

var _ goplugin.GRPCPlugin = glue{}

// GRPCServer is for plugins, which have their own.
func (glue) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("transport: no server")
}

// GRPCClient makes the host's client.
func (glue) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return proto.NewKernelsClient(c), nil
}
