package linearcrossentropy

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

const (
	// chunkRows is the fewest targets of a chunk that has no room in dweight, unless there
	// are fewer. Every chunk packs the whole weight twice, and reads and writes the whole
	// of its gradient: fewer rows make the products slower, more rows the logits larger.
	// With D = 1024, V = 151936 and 512 targets on two cores, chunks of 56 (34 MB of
	// logits) take 1.44 times as long as one chunk of all, of 112 (68 MB) 1.17 times, of
	// 256 (156 MB) 1.04 times.
	chunkRows = 112
	// chunkBytes is what the logits of such a chunk may take when more rows fit than these.
	chunkBytes = 16 << 20
	// frozenBytes is the same where the weight is frozen, and no dweight takes memory: with the sizes above all 512
	// rows, in 0.8 of the time of 112 on an Intel Xeon, and 0.93 to 0.95 of that of two chunks on AMD's Zen 4.
	frozenBytes = 320 << 20
)

// rowsOf returns how many targets make a chunk that has no room in dweight.
func (k *Kernel) rowsOf(f core.Facts) int {
	bytes := chunkBytes
	if f.Frozen {
		bytes = frozenBytes
	}
	return max(chunkRows, cmp.Or(k.most, bytes)/4/f.Vocab)
}

// evenly returns how many of n targets make a chunk of at most so many, the last of which is not much smaller
// than the others.
func evenly(n, most int) int {
	chunks := max(1, (n+most-1)/most)
	return max(1, (n+chunks-1)/chunks)
}

// Backward computes the losses and, of the logits' gradient
//
//	dz = dloss_t * (exp(z - lse_t) - [v = label_t])
//
// the products dx_t = weight^T dz and, unless frozen, dweight = sum of dz x_t^T.
func (k *Kernel) Backward(ctx context.Context, c *core.Call) error {
	k.find(c)
	clear(c.Output("losses").Data)
	clear(c.Output("dx").Data)
	rest, tokens := k.targets, c.Input("labels").Elems()
	if !c.Facts.Frozen {
		n := min(c.Facts.Dim, len(rest))
		if err := k.first(ctx, c, rest[:n]); err != nil {
			return err
		}
		rest, tokens = rest[n:], max(tokens-c.Facts.Dim, 0)
	}
	// With room for as many targets as there may be, so that no later call needs more.
	most := evenly(tokens, k.rowsOf(c.Facts))
	for targets := range slices.Chunk(rest, evenly(len(rest), most)) {
		n := len(targets)
		logits := vector.Grow(&k.logits, most*c.Facts.Vocab)[:n*c.Facts.Vocab]
		if err := k.backward(ctx, c, targets, room{logits, n}, true); err != nil {
			return err
		}
	}
	return nil
}

// first writes dweight, in which the logits of the targets have room, with their share.
func (k *Kernel) first(ctx context.Context, c *core.Call, targets []target) error {
	dweight := c.Output("dweight").Float32s()
	if len(targets) == 0 {
		vector.Parallel(len(dweight), rowGrain, func(lo, hi int) { clear(dweight[lo:hi]) })
		return nil
	}
	return k.backward(ctx, c, targets, room{dweight, c.Facts.Dim}, false)
}

// room is where the logits of a chunk are: those of a span together, [targets, width],
// from as many elements on as the vocabulary before it has.
type room struct {
	data []float32
	each int // elements of room for each of the vocabulary
}

func (m room) of(s span, targets int) []float32 { return m.data[s.lo*m.each:][:targets*(s.hi-s.lo)] }

// backward does a chunk of targets, and adds to dweight, if there is one, or overwrites it.
func (k *Kernel) backward(ctx context.Context, c *core.Call, targets []target, logits room, add bool) error {
	D, n := c.Facts.Dim, len(targets)
	rows := k.gather(c, targets)
	all := spans(n, c.Facts)
	highs := vector.Grow(&k.highs, n*len(all))
	for r := range targets {
		targets[r].highs = highs[r*len(all):][:0]
	}
	for _, s := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		z := logits.of(s, n)
		k.score(rows, s, z)
		rows.eachRow(s, z, func(t *target, z []float32) { // while it is in the caches
			t.add(z)
			t.highs = append(t.highs, t.high)
		})
	}
	dx := vector.Grow(&k.dx, n*D)
	for i, s := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		dz := k.gradient(rows, s, i, logits.of(s, n))
		a := vector.Matrix{Data: dz, Stride: s.hi - s.lo}
		products := []vector.Product{{M: n, N: D, K: s.hi - s.lo, A: a, B: rows.weight(s), C: dx, StrideC: D, Accumulate: i > 0}}
		if !c.Facts.Frozen {
			products = append(products, vector.Product{M: s.hi - s.lo, N: D, K: n, A: a, TransA: true, B: vector.Matrix{Data: rows.x, Stride: D},
				C: c.Output("dweight").Float32s()[s.lo*D : s.hi*D], StrideC: D, Accumulate: add})
		}
		k.multiply(rows, s, products...)
	}
	losses := c.Output("losses").Float32s()
	for r, t := range targets {
		losses[t.token] = t.loss()
		vector.Store(c.Output("dx"), dx[r*D:(r+1)*D], t.token*D)
	}
	return nil
}

// gradient returns dz of a span, given exp(z - high) with the largest logit up to there, which later ones
// may exceed. It moves out of the way of dweight.
func (k *Kernel) gradient(c chunk, s span, i int, exponentials []float32) []float32 {
	width, dlosses := s.hi-s.lo, c.Input("dlosses").Float32s()
	dz := vector.Grow(&k.tile, len(exponentials))
	vector.Parallel(len(c.targets), rowGrain/width, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			t := &c.targets[r]
			dloss, row := dlosses[t.token], dz[r*width:(r+1)*width]
			scale := float64(dloss) / t.sum * math.Exp(float64(t.highs[i])-float64(t.high))
			vector.Scale(row, exponentials[r*width:(r+1)*width], float32(scale))
			if s.lo <= t.label && t.label < s.hi {
				row[t.label-s.lo] -= dloss
			}
		}
	})
	return dz
}
