// Write_a_kernel is a kernel of one's own: a plugin for the op swiglu, complete. Built
// into a plugins folder, it is found by the scan like any other:
//
//	go build -o bin/plugins/ ./plugins/... ./examples/write_a_kernel
//	go run ./cmd/tune kernels inspect my_swiglu
//	go run ./cmd/tune --kernels auto,my_swiglu
//
// A kernel named explicitly comes before those that auto chooses. Its tests, in
// main_test.go, are three lines: the conformance kit knows every edge case of the op.
package main

import (
	"context"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
)

func main() { transport.Serve("my_swiglu", "0.1.0", kernel{}) }

// kernel computes y = silu(gate) * up, one element after the other.
type kernel struct{}

// Info says what the kernel is.
func (kernel) Info() core.Info {
	return core.Info{Name: "my_swiglu", Op: core.SwiGLU, Version: "0.1.0",
		Summary: "the smallest swiglu", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone. A kernel that refuses is not placed; one that
// accepts what it computes wrongly is caught before its first use.
func (kernel) Supports(f core.Facts) error {
	switch {
	case f.DType != core.Float32:
		return fmt.Errorf("my_swiglu: %w: storage %s; it can float32", core.ErrNotSupported, f.DType)
	case f.Layout != core.Separate:
		return fmt.Errorf("my_swiglu: %w: layout %s; it can separate", core.ErrNotSupported, f.Layout)
	case f.Activation != "silu":
		return fmt.Errorf("my_swiglu: %w: activation %s; it can silu", core.ErrNotSupported, f.Activation)
	}
	return nil
}

// Forward writes y. The names and shapes of the tensors are the op's signature.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	gate, up, y := c.Input("gate").Float32s(), c.Input("up").Float32s(), c.Output("y").Float32s()
	for i, g := range gate {
		y[i] = g * sigmoid(g) * up[i]
	}
	return nil
}

// Backward writes dgate and dup: with s = sigmoid(gate),
//
//	dgate = dy * up * (s + gate*s*(1-s))
//	dup   = dy * gate*s
func (kernel) Backward(_ context.Context, c *core.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	dy, gate, up := c.Input("dy").Float32s(), c.Input("gate").Float32s(), c.Input("up").Float32s()
	dgate, dup := c.Output("dgate").Float32s(), c.Output("dup").Float32s()
	for i, g := range gate {
		s := sigmoid(g)
		dgate[i] = dy[i] * up[i] * (s + g*s*(1-s))
		dup[i] = dy[i] * g * s
	}
	return nil
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
