package transport

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport/proto"
)

// serverBell rings a server in this process.
type serverBell struct {
	fakeBell
	server *server
}

func (b *serverBell) ask(kind uint32, text []byte) error {
	a := b.server.asked(context.Background(), kind, string(text))
	b.answer = &a
	return nil
}

func TestAGoPluginIsAskedThroughTheDoorbell(t *testing.T) {
	s := newServer("two", "1", []core.Kernel{reference.Kernel(core.RoPE), reference.Kernel(core.RMSNorm)})
	c := newBellControl(&serverBell{server: s}, func() bool { return false }, rpcControl{})
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, Eps: 1e-6, Cast: core.CastBeforeWeight}
	ctx := context.Background()
	if a, err := c.supports(ctx, 1, f); err != nil || statusError(a.status, a.text) != nil {
		t.Errorf("supports: %+v, %v", a, err)
	}
	if a, err := c.supports(ctx, 0, f); err != nil || !errors.Is(statusError(a.status, a.text), core.ErrNotSupported) {
		t.Errorf("facts of another op: %+v, %v", a, err)
	}
	if a, _ := c.supports(ctx, 2, f); !strings.Contains(a.text, "has 2 kernels") {
		t.Errorf("a kernel that is not there: %+v", a)
	}
	for want, pass := range []core.Pass{core.Forward, core.Backward} {
		h, err := c.bind(ctx, binding{1, pass, f})
		if err != nil || h != uint32(want) || s.bound[h].call.Pass != pass || s.bound[h].call.Facts != f {
			t.Errorf("bind %s: handle %d, %v", pass, h, err)
		}
	}
	if _, err := c.bind(ctx, binding{2, core.Forward, f}); err == nil || !strings.Contains(err.Error(), "has 2 kernels") {
		t.Errorf("bind a kernel that is not there: %v", err)
	}
	if a := s.asked(ctx, requestDescribe, ""); a.status != proto.Status_STATUS_FAILED || !strings.Contains(a.text, "kind 1") {
		t.Errorf("a request that is not known: %+v", a)
	}
	if a := s.asked(ctx, requestBind, "kernel=-1\n"); a.status != proto.Status_STATUS_FAILED {
		t.Errorf("a number that is none: %+v", a)
	}
}
