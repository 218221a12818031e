package linearcrossentropy

import (
	"context"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// forwardRows is how many targets a forward pass takes at a time.
const forwardRows = 1024

// Forward computes the losses. It keeps no logits: of each span only what it adds to the
// sum, which starts anew, scaled, when a larger logit is found.
func (k *Kernel) Forward(ctx context.Context, c *core.Call) error {
	k.find(c)
	losses := c.Output("losses").Float32s()
	clear(losses)
	for targets := range slices.Chunk(k.targets, forwardRows) {
		rows := k.gather(c, targets)
		for _, s := range spans(len(targets), c.Facts) {
			if err := ctx.Err(); err != nil {
				return err
			}
			z := vector.Grow(&k.tile, len(targets)*(s.hi-s.lo))
			k.score(rows, s, z)
			rows.eachRow(s, z, (*target).add)
		}
		for _, t := range targets {
			losses[t.token] = t.loss()
		}
	}
	return nil
}

// add takes further logits, which it overwrites, into the sum.
func (t *target) add(z []float32) {
	high := max(t.high, vector.Max(z))
	shift := high
	if math.IsInf(float64(high), -1) { // so far; exp(z - high) would be NaN
		shift = 0
	}
	if t.sum != 0 {
		t.sum *= math.Exp(float64(t.high) - float64(high))
	}
	t.high, t.sum = high, t.sum+vector.ExpSum(z, z, 1, shift)
}
