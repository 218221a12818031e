package kerneltest_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// TestReferencesPass runs the kit on the reference in float32, which must come within every limit. Cases of many
// tokens take most of the time: only those are run that no kernel of the project passes in the gate.
func TestReferencesPass(t *testing.T) {
	const many = 70
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			cases := slices.DeleteFunc(kerneltest.Cases(op), func(c kerneltest.Case) bool {
				return c.Tokens >= many && verifiedOnly(c)
			})
			kerneltest.Run(t, reference.Single(op), cases)
		})
	}
}

func TestReferenceGradientsAgreeWithDifferences(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			checked := 0
			for _, c := range kerneltest.Cases(op) {
				if c.Facts.DType != core.Float32 || c.Tokens != 1 || c.Facts.Dim > 10 || c.Facts.HeadDim > 10 ||
					c.Facts.Intermediate > 10 {
					continue
				}
				checked++
				c.Tokens = 3
				if err := kerneltest.GradCheck(reference.Kernel(op), c); err != nil {
					t.Error(err)
				}
			}
			if checked == 0 {
				t.Error("no case checked")
			}
		})
	}
}

func TestGradCheckFindsAWrongGradient(t *testing.T) {
	k := faulty{reference.Kernel(core.SwiGLU), outputsTimes("dup", 1.0001)}
	cases := kerneltest.CasesFor(core.SwiGLU, core.Facts{DType: core.Float64, Intermediate: 3, Activation: "silu",
		Layout: core.Separate})
	if err := kerneltest.GradCheck(k, cases[0]); !errors.Is(err, core.ErrWrongResult) {
		t.Errorf("error %v, want ErrWrongResult", err)
	}
}

// TestVerifyLooksAtFarPositions: a rope that knows few positions is not placed.
func TestVerifyLooksAtFarPositions(t *testing.T) {
	for _, mask := range []int32{15, 0xfff} {
		if err := kerneltest.Verify(t.Context(), faulty{reference.Single(core.RoPE), masked("positions", mask)},
			facts[core.RoPE]); !errors.Is(err, core.ErrWrongResult) {
			t.Errorf("position & %d: error %v", mask, err)
		}
	}
}

func TestVerifyTakesPartOfAHugeVocabulary(t *testing.T) {
	k := faulty{reference.Single(core.LinearCrossEntropy), func(run runFunc, c *core.Call) error {
		if c.Facts.Dim != 512 || c.Facts.Vocab != 8192 {
			t.Errorf("verified with %v", c.Facts)
		}
		return errors.New("stop here")
	}}
	if err := kerneltest.Verify(t.Context(),
		k, core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 512, Vocab: 1 << 20}); err == nil {
		t.Error("a kernel that fails passes Verify")
	}
}

func TestVerifyKeepsFactsAndShrinksHugeExperts(t *testing.T) {
	if err := kerneltest.Verify(t.Context(), reference.Single(core.RMSNorm), facts[core.RMSNorm]); err != nil {
		t.Error(err)
	}
	var seen []core.Facts
	f := facts[core.MoEExperts]
	f.Dim, f.Intermediate, f.Experts, f.TopK = 256, 512, 128, 16
	k := faulty{reference.Single(core.MoEExperts), func(run runFunc, c *core.Call) error {
		seen = append(seen, c.Facts)
		return errors.New("stop here")
	}}
	if err := kerneltest.Verify(t.Context(), k, f); err == nil {
		t.Error("a kernel that fails passes Verify")
	}
	for _, got := range seen {
		if got.Dim != f.Dim || got.Intermediate != f.Intermediate || got.Experts != 10 || got.TopK != 10 {
			t.Errorf("verified with %v", got)
		}
	}
	if len(seen) != 2 {
		t.Errorf("%d calls, want one forward and one backward", len(seen))
	}
	f.Activation = "gelu"
	if err := kerneltest.Verify(t.Context(), reference.Kernel(core.MoEExperts),
		f); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("unsupported facts: error %v", err)
	}
}

func TestCheckRefusesToPassWithoutACase(t *testing.T) {
	cases := kerneltest.CasesFor(core.SwiGLU, core.Facts{DType: core.Float32, Intermediate: 3, Activation: "gelu",
		Layout: core.Packed})
	if err := kerneltest.Check(reference.Kernel(core.SwiGLU), cases); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want ErrNotSupported", err)
	}
}

func TestCasesAreNamedApart(t *testing.T) {
	for _, op := range core.Ops() {
		seen := map[string]bool{}
		for _, c := range kerneltest.Cases(op) {
			if seen[c.Name] {
				t.Errorf("two cases are called %q", c.Name)
			}
			seen[c.Name] = true
		}
	}
}

// TestCasesHaveFrozenWeights, which kernels have other code for: the first use of each op in each storage type.
func TestCasesHaveFrozenWeights(t *testing.T) {
	for _, op := range core.Ops() {
		seen, first := map[core.Facts]bool{}, map[core.DType]core.Facts{}
		for _, c := range kerneltest.Cases(op) {
			if _, ok := first[c.Facts.DType]; !ok {
				first[c.Facts.DType] = c.Facts
			}
			seen[c.Facts] = true
		}
		for _, f := range first {
			if f.Frozen = true; seen[f] != op.HasWeights() {
				t.Errorf("%s: there are cases of %v: %v", op, f, seen[f])
			}
		}
	}
}

// counting is a core.Memory that counts what is not yet given back.
type counting struct{ blocks, total int }

func (m *counting) Alloc(n int) ([]byte, error) {
	m.blocks++
	m.total++
	return make([]byte, n), nil
}

func (m *counting) Free([]byte) { m.blocks-- }

type withMemory struct {
	core.Kernel
	m *counting
}

func (k withMemory) OutputMemory() core.Memory { return k.m }

func TestKernelsMemoryIsUsedAndGivenBack(t *testing.T) {
	k := withMemory{reference.Single(core.SwiGLU), new(counting)}
	if err := kerneltest.Check(k, kerneltest.CasesFor(core.SwiGLU, facts[core.SwiGLU])); err != nil {
		t.Error(err)
	}
	for _, r := range []kerneltest.Result{kerneltest.Contents(t.Context(), k, facts[core.SwiGLU]),
		kerneltest.ManyContents(t.Context(), k, facts[core.SwiGLU])} {
		if r.Status != kerneltest.OK {
			t.Error(r.Err())
		}
	}
	if k.m.total == 0 || k.m.blocks != 0 {
		t.Errorf("%d blocks taken, %d not given back", k.m.total, k.m.blocks)
	}
}
