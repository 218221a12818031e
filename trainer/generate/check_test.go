package generate_test

import (
	"context"
	"math"
	"slices"
	"strings"
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

// nanLater is a kernel that gives nothing but NaN from some call on.
type nanLater struct {
	core.Kernel
	calls, right int
}

func (k *nanLater) Forward(ctx context.Context, c *core.Call) error {
	err := k.Kernel.Forward(ctx, c)
	if k.calls++; k.calls > k.right {
		for i := range c.Out[0].Float32s() {
			c.Out[0].Float32s()[i] = float32(math.NaN())
		}
	}
	return err
}

// TestAKernelThatGivesNaNLaterIsTakenOff, and the piece read again: in the middle of a long prompt, where nobody wants
// logits, and at a token.
func TestAKernelThatGivesNaNLaterIsTakenOff(t *testing.T) {
	m := load(t, testdata.Shared(t, "golden", "models", "qwen2-tied"))
	ids := random(m.Vocab(), 1029)
	read := func(reg *core.Registry) (logits []float32, taken int) {
		s := generate.NewSession(m, autograd.Heap{}, 0)
		defer s.Close()
		if reg != nil {
			report, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all", core.Inference())
			if err != nil {
				t.Fatal(err)
			}
			defer report.Restore()
			defer s.Close()
			check := crosscheck.New(1000)
			check.OnWrong = func(*core.KernelError, int) { taken++ }
			s.Check(check, report)
		}
		for _, piece := range [][]int32{ids[:1026], ids[1026:1027], ids[1027:1028], ids[1028:]} {
			out, err := s.Feed(t.Context(), piece)
			if err != nil {
				t.Fatal(err)
			}
			logits = append(logits, out...)
		}
		return logits, taken
	}
	want, _ := read(nil)
	kernel := linked.Kernels()[slices.IndexFunc(linked.Kernels(), func(k core.Kernel) bool {
		return k.Info().Op == core.PagedAttention
	})]
	layers := m.Config.NumHiddenLayers
	for name, right := range map[string]int{"the second piece": layers, "the third token": 5 * layers} {
		reg := core.NewRegistry()
		if err := reg.Register(&nanLater{kerneltest.Verified(kernel), 0, right}); err != nil {
			t.Fatal(err)
		}
		got, taken := read(reg)
		if taken != 1 {
			t.Errorf("%s: taken off %d times", name, taken)
		}
		near(t, name, got, want)
	}
}

// TestNumbersThatOverflowAreSaid, though it is in the middle of a prompt that they do.
func TestNumbersThatOverflowAreSaid(t *testing.T) {
	m := load(t, testdata.Shared(t, "golden", "models", "qwen2-tied"))
	for _, p := range m.Params() {
		if strings.HasSuffix(p.Name, "o_proj.weight") {
			p.Tensor.Float32s()[0] = float32(math.Inf(1))
		}
	}
	s := generate.NewSession(m, autograd.Heap{}, 0)
	defer s.Close()
	_, err := s.Feed(t.Context(), random(m.Vocab(), 1029))
	if err == nil || !strings.Contains(err.Error(), "or they overflow") {
		t.Errorf("error %v", err)
	}
}
