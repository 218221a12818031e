package kernel

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of attention, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	d, H, KV := f.HeadDim, f.Heads, f.KVHeads
	T := len(in["keys"]) / 2
	y, lse := make([]float64, T*H*d), make([]float64, T*H)
	for t := range T {
		for h := range H {
			g := h / (H / KV)
			first, end := int(in["keys"][2*t]), int(in["keys"][2*t+1])
			score := func(j int) (s float64) {
				for i := range d {
					s += in["q"][(t*H+h)*d+i] * in["k"][(j*KV+g)*d+i] / math.Sqrt(float64(d))
				}
				return s
			}
			sum := 0.0
			for j := first; j < end; j++ {
				sum += math.Exp(score(j))
			}
			if first < end {
				lse[t*H+h] = math.Log(sum)
			}
			for j := first; j < end; j++ {
				for i := range d {
					y[(t*H+h)*d+i] += math.Exp(score(j)) / sum * in["v"][(j*KV+g)*d+i]
				}
			}
		}
	}
	return map[string][]float64{"y": y, "lse": lse}
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	grouped := core.Facts{DType: core.Float32, HeadDim: 3, Heads: 4, KVHeads: 2}
	single := core.Facts{DType: core.Float32, HeadDim: 4, Heads: 1, KVHeads: 1}
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		{Name: "grouped heads", Op: core.Attention, Facts: grouped, Tokens: 9, Seed: 1},
		{Name: "one head", Op: core.Attention, Facts: single, Tokens: 9, Seed: 2},
	})
}
