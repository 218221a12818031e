package autograd

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

// misrouter is a gate with memory of its own, as a plugin's kernel has, that may choose
// experts that do not exist.
type misrouter struct {
	core.Kernel
	memory core.Memory
	harm   bool
}

func (m misrouter) OutputMemory() core.Memory { return m.memory }

func (m misrouter) Forward(ctx context.Context, c *core.Call) error {
	err := m.Kernel.Forward(ctx, c)
	if m.harm {
		c.Output("expert_ids").Int32s()[0] = 1 << 30
	}
	return err
}

// gate records a gate and returns its weights and ids, for one token with 4 experts.
func gate(t *testing.T, g *Graph, k core.Kernel) []*Value {
	t.Helper()
	f := core.Facts{DType: core.Float32, Experts: 4, TopK: 2, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1,
		Scale: 1}
	op, err := Kernel(k, core.MoEGate, f, "layers.0.gate", 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return g.ApplyAll(op, g.Input("logits", core.FromFloat32([]float32{1, 2, 3, 4}, 1, 4)))
}

// TestIntegersLieOutOfThePluginsReach: who uses them as indices could not be sure of them
// where their writer can change them.
func TestIntegersLieOutOfThePluginsReach(t *testing.T) {
	var host, plugin core.Memory = &struct{ Heap }{}, &struct{ Heap }{}
	out := gate(t, New(host), misrouter{Kernel: reference.Kernel(core.MoEGate), memory: plugin})
	if weights, ids := out[0].slot.mem, out[1].slot.mem; weights != plugin || ids != host {
		t.Errorf("weights in %p and ids in %p, want %p and %p", weights, ids, plugin, host)
	}
}

// TestIDsOfALinkedKernelAreChecked: it has no process that could be started again.
func TestIDsOfALinkedKernelAreChecked(t *testing.T) {
	for _, harm := range []bool{false, true} {
		g := New(Heap{})
		out := gate(t, g, misrouter{Kernel: reference.Kernel(core.MoEGate), memory: Heap{}, harm: harm})
		sum := g.Apply(Op{Name: "sum", Outputs: []Spec{Float32()},
			Forward: func(_ context.Context, in, out []core.Tensor) error {
				out[0].Float32s()[0] = in[0].Float32s()[0] + float32(in[1].Int32s()[0])
				return nil
			}}, out...)
		p, err := g.Compile(sum)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Forward(t.Context())
		p.Close()
		if failed, ok := errors.AsType[*core.KernelError](err); !harm && err != nil ||
			harm && (!ok || failed.Site != "layers.0.gate" || !strings.Contains(err.Error(), "expert_ids[0,0] = 1073741824")) {
			t.Errorf("harm %v: error %v", harm, err)
		}
	}
}
