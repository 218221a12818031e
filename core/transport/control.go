package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport/proto"
)

// control is how a host learns of a process's kernels: by RPC, or through the doorbell
// where there is one. Errors are those of the way there, which process.explain
// understands, or what the plugin said.
type control interface {
	// describe asks who the plugin is and which kernels it offers.
	describe(ctx context.Context) (*proto.DescribeReply, error)
	// supports asks a kernel, by number, whether it takes the facts. The status of the
	// answer says so, its text why not.
	supports(ctx context.Context, kernel uint32, f core.Facts) (answer, error)
	// bind prepares a pass and returns the handle that call records name.
	bind(ctx context.Context, b binding) (uint32, error)
}

// request makes one request to the process. It may take as long as starting may. A
// caller that gives up would leave it unclear what the plugin knows, so it cannot.
func request[A any](p *process, f func(ctx context.Context) (A, error)) (A, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.StartTimeout)
	defer cancel()
	defer p.sayIfSlow("an answer about its kernels", p.doing)()
	a, err := f(ctx)
	if err != nil {
		err = p.explain(ctx, err)
	}
	return a, err
}

// rpcControl is the control of a plugin that speaks gRPC.
type rpcControl struct{ kernels proto.KernelsClient }

var _ control = rpcControl{}

func (c rpcControl) describe(ctx context.Context) (*proto.DescribeReply, error) {
	return c.kernels.Describe(ctx, &proto.DescribeRequest{})
}

func (c rpcControl) supports(ctx context.Context, kernel uint32, f core.Facts) (answer, error) {
	facts, err := factsJSON(f)
	if err != nil {
		return answer{}, err
	}
	r, err := c.kernels.Supports(ctx, &proto.SupportsRequest{Kernel: kernel, Facts: facts})
	return answer{status: r.GetStatus(), text: r.GetReason()}, err
}

func (c rpcControl) bind(ctx context.Context, b binding) (uint32, error) {
	facts, err := factsJSON(b.facts)
	if err != nil {
		return 0, err
	}
	r, err := c.kernels.Bind(ctx, &proto.BindRequest{Kernel: b.kernel, Backward: b.pass == core.Backward, Facts: facts})
	return r.GetHandle(), err
}

// bellControl is the control of a plugin that speaks gRPC and has a doorbell, which is rung
// for whatever is asked between calls. An RPC would take milliseconds there: what it wakes in
// a Go program has no processor to run on while all that the program may use belong to
// threads that sleep in the doorbell or wait for more work.
type bellControl struct {
	bareControl
	rpc rpcControl
}

func newBellControl(link asker, gone func() bool, rpc rpcControl) bellControl {
	return bellControl{bareControl{link, gone, factsLine}, rpc}
}

func (c bellControl) describe(ctx context.Context) (*proto.DescribeReply, error) {
	return c.rpc.describe(ctx)
}

// factsLine writes facts as one line of a request.
func factsLine(f core.Facts) ([]byte, error) {
	b, err := factsJSON(f)
	return fmt.Appendf(nil, "facts=%s\n", b), err
}

// asked answers, in the plugin, what a bellControl asks.
func (s *server) asked(ctx context.Context, kind uint32, text string) answer {
	var kernel uint64
	var backward bool
	var facts []byte
	var err error
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "="); name {
		case "kernel":
			kernel, err = strconv.ParseUint(value, 10, 32)
		case "pass":
			backward = value == core.Backward.String()
		case "facts":
			facts = []byte(value)
		}
	}
	switch {
	case err != nil:
	case kind == requestSupports:
		r, _ := s.Supports(ctx, &proto.SupportsRequest{Kernel: uint32(kernel), Facts: facts}) // never an error
		return answer{status: r.GetStatus(), text: r.GetReason()}
	case kind == requestBind:
		var r *proto.BindReply
		if r, err = s.Bind(ctx, &proto.BindRequest{Kernel: uint32(kernel), Backward: backward, Facts: facts}); err == nil {
			return answer{text: fmt.Sprintf("handle=%d\n", r.GetHandle())}
		}
	default:
		err = fmt.Errorf("transport: there is no request of kind %d", kind)
	}
	return answer{status: proto.Status_STATUS_FAILED, text: status.Convert(err).Message()}
}

// factsJSON is the form in which facts go to a plugin.
func factsJSON(f core.Facts) ([]byte, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("transport: facts %v: %w", f, err)
	}
	return b, nil
}
