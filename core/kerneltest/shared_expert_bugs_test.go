package kerneltest_test

import (
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// TestSharedExpertBugsAreCaught plants the mistakes that its two products of int8 invite.
func TestSharedExpertBugsAreCaught(t *testing.T) {
	separate := core.Facts{DType: core.Float32, Dim: 64, Intermediate: 33, Activation: "silu", Layout: core.Separate}
	packed := separate
	packed.Layout = core.Packed
	for _, b := range []struct {
		name  string
		facts core.Facts
		bug   func(runFunc, *core.Call) error
	}{
		{"the gate and up halves swapped", separate, func(run runFunc, c *core.Call) error {
			own := *c
			own.In = append([]core.Tensor(nil), c.In...)
			own.Set("gate", c.Input("up"))
			own.Set("up", c.Input("gate"))
			own.Set("gate_scale", c.Input("up_scale"))
			own.Set("up_scale", c.Input("gate_scale"))
			return run(&own)
		}},
		{"the gate and up halves swapped in the packed layout", packed, func(run runFunc, c *core.Call) error {
			own := *c
			own.In = append([]core.Tensor(nil), c.In...)
			for _, name := range []string{"gate_up", "gate_up_scale"} {
				was := c.Input(name)
				swapped := core.NewTensor(was.DType, was.Shape...)
				half := len(was.Data) / 2
				copy(swapped.Data[copy(swapped.Data, was.Data[half:]):], was.Data[:half])
				own.Set(name, swapped)
			}
			return run(&own)
		}},
		{"saturation of int16 sums in gate", separate, ffn{narrow: true}.run},
		{"h that is not quantised", separate, ffn{whole: true}.run},
		{"one scale of h for all tokens", separate, ffn{shared: true}.run},
	} {
		t.Run(b.name, func(t *testing.T) {
			k := faulty{reference.Single(core.SharedExpertFFN), b.bug}
			if err := kerneltest.Verify(t.Context(), k, b.facts); err == nil || !strings.Contains(err.Error(), "forward y") {
				t.Errorf("verify: %v", err)
			}
			if err := kerneltest.Check(k, kerneltest.CasesFor(core.SharedExpertFFN, b.facts)); err == nil {
				t.Error("the cases do not catch it")
			}
		})
	}
	right := faulty{reference.Single(core.SharedExpertFFN), ffn{}.run}
	if err := kerneltest.Check(right, kerneltest.CasesFor(core.SharedExpertFFN, separate)); err != nil {
		t.Errorf("without a mistake: %v", err)
	}
}

// ffn is the block in plain Go, with a mistake.
type ffn struct {
	narrow bool // pairs of the gate's products are added up in int16, as VPMADDUBSW does with a factor without a sign
	whole  bool // h is multiplied as it is
	shared bool // h has the scale of the first token
}

func (m ffn) run(_ runFunc, c *core.Call) error {
	f, x, y := c.Facts, c.Input("x").Float32s(), c.Output("y").Float32s()
	var first float32
	for t := range c.Tokens() {
		q, s := int8Row(x[t*f.Dim:][:f.Dim], 0)
		h := make([]float32, f.Intermediate)
		for i := range h {
			row := func(name string, narrow bool) float64 {
				sum := product(q, c.Input(name).Int8s()[i*f.Dim:][:f.Dim], narrow)
				return float64(sum * s * c.Input(name + "_scale").Float32s()[i])
			}
			g := row("gate", m.narrow)
			h[i] = float32(g / (1 + math.Exp(-g)) * row("up", false))
		}
		p, r := int8Row(h, first)
		if m.shared && t == 0 {
			first = r
		}
		for d := range f.Dim {
			down := c.Input("down").Int8s()[d*f.Intermediate:][:f.Intermediate]
			sum := product(p, down, false) * r
			if m.whole {
				sum = 0
				for i, w := range down {
					sum += float32(w) * h[i]
				}
			}
			y[t*f.Dim+d] = sum * c.Input("down_scale").Float32s()[d]
		}
	}
	return nil
}

// int8Row makes whole multiples of a row, of the given scale or, for 0, of its own. NaN goes into the scale.
func int8Row(x []float32, scale float32) (q []int8, s float32) {
	if s = scale; s == 0 {
		for _, v := range x {
			s = max(s, v, -v)
		}
		if s /= 127; s == 0 {
			s = 1
		}
	}
	q = make([]int8, len(x))
	for i, v := range x {
		if v-v == 0 { // neither NaN nor infinite
			q[i] = int8(max(-128, min(127, math.RoundToEven(float64(v/s)))))
		}
	}
	return q, s
}

func product(q, w []int8, narrow bool) (sum float32) {
	total := int32(0)
	for i := 0; i < len(q); i += 2 {
		pair := int32(0)
		for j := i; j < min(i+2, len(q)); j++ {
			a := int32(q[j])
			if narrow {
				a += 128
				total -= 128 * int32(w[j])
			}
			pair += a * int32(w[j])
		}
		if narrow {
			pair = min(max(pair, math.MinInt16), math.MaxInt16)
		}
		total += pair
	}
	return float32(total)
}
