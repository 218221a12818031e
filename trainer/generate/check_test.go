package generate_test

import (
	"context"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/generate"
)

// late is a kernel that is wrong for some numbers of tokens.
type late struct {
	core.Kernel
	wrong func(tokens int) bool
}

func (l *late) Forward(ctx context.Context, c *core.Call) error {
	err := l.Kernel.Forward(ctx, c)
	if l.wrong(c.Tokens()) {
		for i := range c.Out[0].Float32s() {
			c.Out[0].Float32s()[i] *= 2
		}
	}
	return err
}

// TestAWrongKernelWritesNothing: one that is wrong for a single token alone, or for a whole
// piece of the prompt, is taken off, and the logits are those of a model without it.
func TestAWrongKernelWritesNothing(t *testing.T) {
	for _, op := range []core.Op{core.SwiGLU, core.PagedAttention} {
		t.Run(string(op), func(t *testing.T) { wrongKernelWritesNothing(t, op) })
	}
}

func wrongKernelWritesNothing(t *testing.T, op core.Op) {
	for name, wrong := range map[string]func(int) bool{
		"a single token":       func(n int) bool { return n == 1 },
		"a piece of a prompt":  func(n int) bool { return n == 128 },
		"what is left of that": func(n int) bool { return n == 16 },
		"nothing":              func(int) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, testdata.Shared(t, "golden", "models", "qwen2-tied"))
			var kernel core.Kernel
			for _, k := range linked.Kernels() {
				if k.Info().Op == op {
					kernel = kerneltest.Verified(k)
				}
			}
			ids := random(m.Vocab(), 139)
			logits := func(with bool) (all [][]float32, taken int) {
				var report *core.Report
				s := generate.NewSession(m, autograd.Heap{}, 0)
				defer s.Close()
				check := crosscheck.New(1000)
				check.OnWrong = func(*core.KernelError, int) { taken++ }
				if with {
					reg := core.NewRegistry()
					if err := reg.Register(&late{kernel, wrong}); err != nil {
						t.Fatal(err)
					}
					var err error
					if report, err = core.ApplyDefaultKernels(t.Context(), m, reg, "all", core.Inference()); err != nil {
						t.Fatal(err)
					}
					defer report.Restore()
					defer s.Close()
				}
				s.Check(check, report)
				for _, piece := range [][]int32{ids[:128], ids[128:137], ids[137:138], ids[138:]} {
					out, err := s.Feed(t.Context(), piece)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, slices.Clone(out))
				}
				return all, taken
			}
			want, _ := logits(false)
			got, taken := logits(true)
			if (taken == 1) != (name != "nothing") {
				t.Errorf("taken off %d times", taken)
			}
			for i := range want {
				near(t, name, got[i], want[i])
			}
		})
	}
}
