package kerneltest_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// TestInt8BugsAreCaught plants the mistakes that products of int8 invite.
func TestInt8BugsAreCaught(t *testing.T) {
	static := core.Facts{DType: core.Float32, Dim: 64, Out: 33, Scaling: core.StaticScaling}
	dynamic := core.Facts{DType: core.Float32, Dim: 64, Out: 33, Scaling: core.DynamicScaling, Bias: true}
	for _, b := range []struct {
		name  string
		facts core.Facts
		bug   func(runFunc, *core.Call) error
	}{
		{"an offset forgotten in the quantised bias", static, func(run runFunc, c *core.Call) error {
			sums := core.NewTensor(core.Int32, c.Facts.Out)
			offset := c.Input("input_offset").Int32s()[0]
			for n := range sums.Int32s() {
				sums.Int32s()[n] = c.Input("quant_bias").Int32s()[n]
				for _, w := range c.Input("weight").Int8s()[n*c.Facts.Dim:][:c.Facts.Dim] {
					sums.Int32s()[n] += offset * int32(w)
				}
			}
			own := *c
			own.In = append([]core.Tensor(nil), c.In...)
			own.Set("quant_bias", sums)
			return run(&own)
		}},
		{"saturation of int16 sums", dynamic, saturates},
		{"halves rounded up", dynamic, requantised(func(x, s float32) float64 { return math.Floor(float64(x/s) + 0.5) })},
		{"halves rounded away from 0", dynamic, requantised(func(x, s float32) float64 {
			return math.Round(float64(x / s))
		})},
		{"a product with the reciprocal", dynamic, requantised(func(x, s float32) float64 {
			return math.RoundToEven(float64(x * (1 / s)))
		})},
		{"a quotient in float64", dynamic, requantised(func(x, s float32) float64 {
			return math.RoundToEven(float64(x) / float64(s))
		})},
		{"a bias that is scaled", dynamic, after("y", func(c *core.Call, v []float32) {
			for i := range v {
				b := c.Input("bias").Float32s()[i%c.Facts.Out]
				v[i] += b * (c.Input("weight_scale").Float32s()[i%c.Facts.Out] - 1)
			}
		})},
	} {
		t.Run(b.name, func(t *testing.T) {
			k := faulty{reference.Single(core.LinearW8A8), b.bug}
			if err := kerneltest.Verify(t.Context(), k, b.facts); err == nil || !strings.Contains(err.Error(), "forward y") {
				t.Errorf("verify: %v", err)
			}
			if err := kerneltest.Check(k, kerneltest.CasesFor(core.LinearW8A8, b.facts)); err == nil {
				t.Error("the cases do not catch it")
			}
		})
	}
}

// TestHalvesOfASharedExpertAreCaught rounds halves away from zero by moving x by its last bit, but for the largest of
// a token, which the scale is made of.
func TestHalvesOfASharedExpertAreCaught(t *testing.T) {
	f := core.Facts{DType: core.Float32, Dim: 64, Intermediate: 33, Layout: core.Separate, Activation: core.SiLU}
	k := faulty{reference.Single(core.SharedExpertFFN), func(run runFunc, c *core.Call) error {
		x := c.Input("x")
		moved := core.NewTensor(x.DType, x.Shape...)
		if copy(moved.Float32s(), x.Float32s()); x.DType != core.Float32 {
			return run(c)
		}
		for row := range slices.Chunk(moved.Float32s(), c.Facts.Dim) {
			most := max(slices.Max(row), -slices.Min(row))
			for i, v := range row {
				if v != most && v != -most && v != 0 {
					row[i] = math.Nextafter32(v, 2*v)
				}
			}
		}
		own := *c
		own.In = slices.Clone(c.In)
		own.Set("x", moved)
		return run(&own)
	}}
	if err := kerneltest.Verify(t.Context(), k, f); err == nil || !strings.Contains(err.Error(), "forward y") {
		t.Errorf("verify: %v", err)
	}
}

// requantised computes y again with the whole numbers that a function makes of x and the scale of its row.
func requantised(round func(x, s float32) float64) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		if err := run(c); err != nil || c.Facts.DType != core.Float32 {
			return err
		}
		f, w := c.Facts, c.Input("weight").Int8s()
		for t := range c.Tokens() {
			row := c.Input("x").Float32s()[t*f.Dim:][:f.Dim]
			s := max(slices.Max(row), -slices.Min(row)) / 127
			if !(s > 0) || math.IsInf(float64(s), 0) {
				continue
			}
			for n := range f.Out {
				sum := int32(0)
				for i, x := range row {
					sum += int32(w[n*f.Dim+i]) * int32(min(max(round(x, s), -128), 127))
				}
				y := float32(sum) * s * c.Input("weight_scale").Float32s()[n]
				c.Output("y").Float32s()[t*f.Out+n] = y + c.Input("bias").Float32s()[n]
			}
		}
		return nil
	}
}

// saturates adds up pairs of products in int16, as VPMADDUBSW does, which wants one factor without a sign: q + 128.
func saturates(run runFunc, c *core.Call) error {
	err := run(c)
	if err != nil {
		return err
	}
	f, x, w := c.Facts, c.Input("x").Float32s(), c.Input("weight").Int8s()
	for t := range c.Tokens() {
		row := x[t*f.Dim:][:f.Dim]
		var s float32
		for _, v := range row {
			s = max(s, v, -v)
		}
		s /= 127
		for n := range f.Out {
			lost := lostInInt16(row, s, w[n*f.Dim:])
			c.Output("y").Float32s()[t*f.Out+n] -= float32(lost) * s * c.Input("weight_scale").Float32s()[n]
		}
	}
	return nil
}

// lostInInt16 is by how much the sum of a token's products with a row is too large for its pairs to fit int16.
func lostInInt16(x []float32, s float32, w []int8) (lost int32) {
	for i := 0; i+1 < len(x); i += 2 {
		pair := (int32(x[i]/s)+128)*int32(w[i]) + (int32(x[i+1]/s)+128)*int32(w[i+1])
		lost += pair - min(max(pair, -1<<15), 1<<15-1)
	}
	return lost
}
