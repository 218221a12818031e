package kerneltest_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

var separate = kerneltest.Case{Name: "separate", Op: core.SwiGLU, Tokens: 3, Seed: 1,
	Facts: core.Facts{DType: core.Float32, Intermediate: 5, Activation: "silu", Layout: core.Separate}}

func swigluFormula(_ core.Facts, in map[string][]float64) map[string][]float64 {
	y := make([]float64, len(in["gate"]))
	for i, g := range in["gate"] {
		y[i] = g / (1 + math.Exp(-g)) * in["up"][i]
	}
	return map[string][]float64{"y": y}
}

func TestTheReferencePassesAnOracle(t *testing.T) {
	kerneltest.RunOracle(t, reference.Single(core.SwiGLU), swigluFormula, []kerneltest.Case{separate})
}

// TestAnOracleCatches: it needs no reference for that, only the formula of forward.
func TestAnOracleCatches(t *testing.T) {
	right := reference.Single(core.SwiGLU)
	norm := kerneltest.Case{Op: core.AddRMSNorm, Tokens: 2, Seed: 1, Facts: facts[core.AddRMSNorm]}
	norm.Facts.Dim = 4
	for _, tt := range []struct {
		name   string
		kernel core.Kernel
		oracle kerneltest.Oracle
		c      kerneltest.Case
		want   string
	}{
		{"an output off by a little", faulty{right, outputsTimes("y", 1+1e-5)}, swigluFormula, separate, "forward y"},
		{"a gradient that is dropped", faulty{right, outputsTimes("dup", 0)}, swigluFormula, separate, "backward dup"},
		{"a gradient off by a little",
			faulty{right, outputsTimes("dgate", 1-1e-5)}, swigluFormula, separate, "backward dgate"},
		{"the other half of a gradient",
			reference.Single(core.AddRMSNorm), residualTwice, norm, "dx as the gradient of residual"},
		{"not a number", faulty{right, outputsTimes("y", math.NaN())}, swigluFormula, separate, "element 0 is NaN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := kerneltest.CheckOracle(t.Context(), tt.kernel, tt.oracle, tt.c)
			if !errors.Is(err, core.ErrWrongResult) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that names %q", err, tt.want)
			}
		})
	}
}

// residualTwice is add_rms_norm by an author who adds the residual twice.
func residualTwice(f core.Facts, in map[string][]float64) map[string][]float64 {
	h, y, rstd := make([]float64, len(in["x"])), make([]float64, len(in["x"])), make([]float64, len(in["x"])/f.Dim)
	for t := range rstd {
		mean := 0.0
		for i := t * f.Dim; i < (t+1)*f.Dim; i++ {
			h[i] = in["x"][i] + 2*in["residual"][i]
			mean += h[i] * h[i] / float64(f.Dim)
		}
		rstd[t] = 1 / math.Sqrt(mean+f.Eps)
		for i := range f.Dim {
			y[t*f.Dim+i] = h[t*f.Dim+i] * rstd[t] * in["weight"][i]
		}
	}
	return map[string][]float64{"y": y, "h": h, "rstd": rstd}
}

// TestAnOracleThatGivesTooLittleIsNamed: a forgotten output is the author's mistake, not
// the kernel's.
func TestAnOracleThatGivesTooLittleIsNamed(t *testing.T) {
	empty := func(core.Facts, map[string][]float64) map[string][]float64 { return nil }
	err := kerneltest.CheckOracle(t.Context(), reference.Single(core.SwiGLU), empty, separate)
	if err == nil || !strings.Contains(err.Error(), "forward y: it has 15 elements, the oracle gives 0") {
		t.Errorf("error %v", err)
	}
}

// TestAnOracleCannotBeAskedAboutWhatAKernelRefuses: unlike the standard cases, those of an
// oracle are not skipped.
func TestAnOracleCannotBeAskedAboutWhatAKernelRefuses(t *testing.T) {
	c := separate
	c.Facts.Activation = "gelu"
	if err := kerneltest.CheckOracle(t.Context(), reference.Single(core.SwiGLU),
		swigluFormula, c); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want one that wraps ErrNotSupported", err)
	}
}
