package transport

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport/proto"
)

// control is how a host learns of a process's kernels: by RPC, or, from a bare plugin,
// through the doorbell. Errors are those of the way there, which process.explain
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

// factsJSON is the form in which facts go to a plugin.
func factsJSON(f core.Facts) ([]byte, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("transport: facts %v: %w", f, err)
	}
	return b, nil
}
