package kerneltest

import (
	"context"
	"errors"
	"testing"

	"github.com/seed98097648/tune/core"
)

// Calls returns a forward and a backward call of a case, filled with its random data.
// It runs k's forward pass, whose saved tensors become inputs of the backward pass. The
// tensors lie on the heap, so that calls outlive the kernel. An op without a backward pass has no
// such call.
func Calls(ctx context.Context, k core.Kernel, c Case) (forward, backward *core.Call, err error) {
	return calls(ctx, k, c, heap{}, heap{}, false)
}

// CallsIn is Calls with the inputs and the outputs in memory of the caller's choice, who
// also frees it. Every tensor starts at a multiple of 64 bytes, as those of a trainer do.
// What the forward pass saves is copied to the inputs.
func CallsIn(ctx context.Context, k core.Kernel, c Case,
	inputs, outputs core.Memory) (forward, backward *core.Call, err error) {
	return calls(ctx, k, c, inputs, outputs, true)
}

func calls(ctx context.Context, k core.Kernel, c Case, inputs, outputs core.Memory,
	aligned bool) (forward, backward *core.Call, err error) {
	in, err := newInputs(c, &memory{Memory: inputs}, aligned)
	if err != nil {
		return nil, nil, err
	}
	if forward, _, err = in.call(core.Forward, outputs); err != nil {
		return nil, nil, err
	}
	furnishAll(forward)
	if err := core.Run(ctx, k, forward); err != nil {
		return nil, nil, err
	}
	if err := in.save(forward); err != nil {
		return nil, nil, err
	}
	if len(c.Op.Passes()) == 1 {
		return forward, nil, nil
	}
	backward, _, err = in.call(core.Backward, outputs)
	return forward, backward, err
}

// Benchmark measures both passes of a case: the bytes of all inputs and outputs per
// second, and GFLOP/s when flops, the operations of a forward pass, is not 0. A backward
// pass counts twice as many. Cases that k does not support are skipped.
func Benchmark(b *testing.B, k core.Kernel, c Case, flops float64) {
	b.Helper()
	ctx := context.Background()
	forward, backward, err := Calls(ctx, k, c)
	if errors.Is(err, core.ErrNotSupported) {
		b.Skip(err)
	} else if err != nil {
		b.Fatal(err)
	}
	for _, call := range []*core.Call{forward, backward}[:len(c.Op.Passes())] {
		b.Run(call.Pass.String(), func(b *testing.B) {
			n := 0
			for _, tensors := range [][]core.Tensor{call.In, call.Out} {
				for _, x := range tensors {
					n += len(x.Data)
				}
			}
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if err := core.Run(ctx, k, call); err != nil {
					b.Fatal(err)
				}
			}
			if flops > 0 {
				total := flops * float64(1+call.Pass) * float64(b.N)
				b.ReportMetric(total/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			}
		})
	}
}
