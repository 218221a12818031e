package nn

import (
	"math"
	"slices"
	"testing"
)

// TestAWeighedLossHasItsOwnValueAndGradients: a loss that is the square of the sum of what the tokens
// of the first row lose, and half of that of the second row, plain and with a kernel, against finite differences.
func TestAWeighedLossHasItsOwnValueAndGradients(t *testing.T) {
	cfg := tiny()
	b := randomBatch(newRand(7), 2, 5, cfg.Vocab)
	b.Labels[3] = -100
	weigh := func(losses, slopes []float32) (float64, error) {
		first, second := 0.0, 0.0
		for i, l := range losses {
			if i < b.S {
				first += float64(l)
			} else {
				second += float64(l)
			}
		}
		for i := range slopes {
			if slopes[i] = 0.5; i < b.S {
				slopes[i] = float32(2 * first)
			}
		}
		return first*first + second/2, nil
	}
	for name, fused := range map[string]bool{"plain": false, "fused": true} {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, cfg, 3)
			var k *countingKernel
			if fused {
				k = fuseLoss(t, d)
			}
			c := newContext(t, b.B, b.S)
			c.Weigh = weigh
			fill(t, c, b)
			p, err := d.Compile(c, d.Forward(c).Loss, false)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			forward := func() float64 {
				loss, err := p.Forward(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return loss
			}
			forward()
			if err := p.Backward(t.Context()); err != nil {
				t.Fatal(err)
			}
			var gradients [][]float32
			for _, param := range d.Params() {
				gradients = append(gradients, slices.Clone(p.Gradient(param)))
			}
			if fused && (k.forwards != 1 || k.backwards != 1) {
				t.Errorf("%d calls forward, %d backward, want one each", k.forwards, k.backwards)
			}
			for i, param := range d.Params() {
				g, w := gradients[i], param.Tensor.Float32s()
				at := 0 // the element with the largest gradient, where rounding matters least
				for i := range g {
					if math.Abs(float64(g[i])) > math.Abs(float64(g[at])) {
						at = i
					}
				}
				got, was := float64(g[at]), w[at]
				const h = 1e-2
				w[at] = was + h
				high := forward()
				w[at] = was - h
				want := (high - forward()) / (2 * h)
				w[at] = was
				if !(math.Abs(got-want) <= 2e-2*max(1, math.Abs(want))) {
					t.Errorf("%s: gradient %g, finite difference %g", param.Name, got, want)
				}
			}
		})
	}
}
