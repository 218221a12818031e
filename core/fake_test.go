package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// fakeKernel is a kernel that computes nothing.
type fakeKernel struct {
	info     core.Info
	supports func(core.Facts) error // nil: everything
}

func (k *fakeKernel) Info() core.Info                            { return k.info }
func (k *fakeKernel) Forward(context.Context, *core.Call) error  { return nil }
func (k *fakeKernel) Backward(context.Context, *core.Call) error { return nil }
func (k *fakeKernel) Supports(f core.Facts) error {
	if k.supports == nil {
		return nil
	}
	return k.supports(f)
}

// verifiedKernel is a fakeKernel that can verify itself.
type verifiedKernel struct {
	fakeKernel
	err   error
	calls int
}

func (k *verifiedKernel) Verify(context.Context, core.Facts) error { k.calls++; return k.err }

func newKernel(name string, op core.Op) *fakeKernel {
	return &fakeKernel{info: core.Info{Name: name, Op: op, Backward: true}}
}

// refuse makes a kernel's Supports say no, for the given reason.
func refuse(k *fakeKernel, reason string) *fakeKernel {
	k.supports = func(core.Facts) error { return fmt.Errorf("%w: %s", core.ErrNotSupported, reason) }
	return k
}

// fakeHook is one swappable forward; it remembers every swap.
type fakeHook struct {
	kernel core.Kernel
	fail   error // what Swap returns, if anything
	swaps  int
}

func (h *fakeHook) Kernel() core.Kernel { return h.kernel }
func (h *fakeHook) Swap(k core.Kernel) error {
	if h.fail != nil {
		return h.fail
	}
	h.kernel, h.swaps = k, h.swaps+1
	return nil
}

// fakeModel is a model that is nothing but its sites.
type fakeModel []core.Site

func (m fakeModel) Sites() []core.Site   { return m }
func (m fakeModel) hook(i int) *fakeHook { return m[i].Hook.(*fakeHook) }

// kernels returns the name of the kernel on each site, "" for the plain forward.
func (m fakeModel) kernels() []string {
	names := make([]string, len(m))
	for i := range m {
		if k := m.hook(i).kernel; k != nil {
			names[i] = k.Info().Name
		}
	}
	return names
}

// newModel returns a model with one site for each op, in order.
func newModel(ops ...core.Op) fakeModel {
	var m fakeModel
	for i, op := range ops {
		m = append(m, core.Site{Path: fmt.Sprintf("layers.%d.%s", i, op), Op: op, Facts: validFacts(op), Hook: &fakeHook{}})
	}
	return m
}

// validFacts returns a use of op that exists in real models, small.
func validFacts(op core.Op) core.Facts {
	switch op {
	case core.RMSNorm, core.AddRMSNorm:
		return core.Facts{DType: core.Float32, WeightDType: core.BFloat16, Dim: 8, Eps: 1e-5, Cast: core.CastBeforeWeight}
	case core.SwiGLU:
		return core.Facts{DType: core.BFloat16, Intermediate: 6, Activation: "silu", Layout: core.Separate}
	case core.RoPE:
		return core.Facts{DType: core.Float32, Pairing: core.Half, RotaryDim: 4, HeadDim: 6, Heads: 4, KVHeads: 2}
	case core.MoEGate:
		return core.Facts{DType: core.BFloat16, Experts: 8, TopK: 2, Scoring: core.ScoringSigmoid, Bias: true,
			Groups: 4, TopGroups: 2, Normalize: true, Scale: 2.5}
	case core.MoEExperts:
		return core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 4, Intermediate: 6, Activation: "silu",
			Layout: core.PerExpert, Experts: 3, TopK: 2, Routing: core.RoutingNormalized}
	case core.Attention:
		return core.Facts{DType: core.Float32, HeadDim: 6, Heads: 4, KVHeads: 2}
	case core.LinearCrossEntropy:
		return core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 4, Vocab: 9}
	}
	f := ops.Of(op).Usual // of an op that came later
	if f.DType = core.Float32; op.HasWeights() {
		f.WeightDType = core.Float32
	}
	return f
}

func newRegistry(t *testing.T, kernels ...core.Kernel) *core.Registry {
	t.Helper()
	r := core.NewRegistry()
	for _, k := range kernels {
		if err := r.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func wantErrorIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want one that wraps %q", err, target)
	}
}
