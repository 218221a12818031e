package nn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
)

// CrossEntropy records the causal language-model loss: position t is scored against
// label t+1 of its row, ignored labels are left out, and the sum is divided by the
// batch's Divisor: logits [T, V].
func CrossEntropy(c *Context, logits *autograd.Value) *autograd.Value {
	return c.G.Apply(crossEntropyOp(c, logits, 0), logits, c.labels, c.divisor)
}

// crossEntropyOp is the loss of CrossEntropy. Of a label that is smoothed, the share is every
// token's alike: the loss of the token becomes (1 - share) of its own and share times the mean of
// those of all tokens, as transformers' LabelSmoother has it.
func crossEntropyOp(c *Context, logits *autograd.Value, share float64) autograd.Op {
	t, v := logits.Shape()[0], logits.Shape()[1]
	l := &entropyLoss{c: c, t: t, v: v, share: share}
	op := autograd.Op{Name: "cross_entropy", Forward: l.forward,
		Outputs:  []autograd.Spec{autograd.Float32(), autograd.Float32(t, 2), autograd.Float32(t)},
		Backward: &autograd.Backward{Inputs: []int{0, 1, 2}, Outputs: []int{1}, Wrt: []int{0}, InPlace: true, Run: l.backward}}
	if c.Weigh != nil {
		op.Outputs = append(op.Outputs, autograd.Float32(t))
		op.Backward.Outputs = append(op.Backward.Outputs, 3)
	}
	return op
}

// entropyLoss is the operation, of logits [T, V].
type entropyLoss struct {
	c     *Context
	t, v  int
	share float64
}

// expRooms has room for the exponentials of a part of a row.
var expRooms = sync.Pool{New: func() any { return new([1 << 10]float32) }}

func (l *entropyLoss) forward(_ context.Context, in, out []core.Tensor) error {
	x, labels, divisor := in[0].Float32s(), in[1].Int32s(), in[2].Float32s()[0]
	saved, losses := out[1].Float32s(), out[2].Float32s() // per row: the largest logit, and what expSum says
	if err := labelsInRange(labels, l.v, l.c.S); err != nil {
		return err
	}
	simd.Parallel(l.t, max(1, grain/l.v), func(lo, hi int) {
		buf := expRooms.Get().(*[1 << 10]float32)
		defer expRooms.Put(buf)
		for r := lo; r < hi; r++ {
			row := x[r*l.v : (r+1)*l.v]
			saved[2*r], saved[2*r+1], losses[r] = 0, 0, 0
			if y := target(labels, r, l.c.S); y >= 0 {
				high, sum := expSum(row, buf[:])
				saved[2*r], saved[2*r+1] = high, float32(sum)
				losses[r] = float32(float64(high-row[y]) + math.Log(sum))
				if l.share > 0 {
					mean := sum64(row) / float64(l.v)
					losses[r] = float32((1-l.share)*float64(high-row[y]) + l.share*(float64(high)-mean) + math.Log(sum))
				}
			}
		}
	})
	if l.c.Weigh != nil {
		loss, err := l.c.Weigh(losses, out[3].Float32s())
		out[0].Float32s()[0] = float32(loss)
		return err
	}
	out[0].Float32s()[0] = float32(sum64(losses) / float64(divisor))
	return nil
}

func (l *entropyLoss) backward(_ context.Context, g *autograd.Grads) error {
	x, labels, saved, dx := g.In[0].Float32s(), g.In[1].Int32s(), g.Out[1].Float32s(), g.DIn[0].Float32s()
	upstream := float64(g.DOut[0].Float32s()[0])
	scaleOf := func(int) float64 { return upstream / float64(g.In[2].Float32s()[0]) }
	if l.c.Weigh != nil { // instead of a share for all alike
		slopes := g.Out[3].Float32s()
		scaleOf = func(r int) float64 { return upstream * float64(slopes[r]) }
	}
	simd.Parallel(l.t, max(1, grain/l.v), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := dx[r*l.v : (r+1)*l.v]
			y, scale := target(labels, r, l.c.S), scaleOf(r)
			if y < 0 || scale == 0 {
				clear(row)
				continue
			}
			// Not exp(x - log sum): a logarithm near a large logit has few digits left.
			simd.ExpSum(row, x[r*l.v:(r+1)*l.v], 1, saved[2*r])
			simd.Scale(row, row, float32(scale/float64(saved[2*r+1])))
			row[y] -= float32((1 - l.share) * scale)
			if l.share > 0 {
				each := float32(l.share * scale / float64(l.v))
				for i := range row {
					row[i] -= each
				}
			}
		}
	})
	return nil
}

// logitsOf records the logits of a head, x [T, D], capped if there is a cap.
func logitsOf(c *Context, head *Linear, most float64, x *autograd.Value) *autograd.Value {
	y := head.Forward(c, x)
	if most > 0 {
		return capped(c.G, y, most)
	}
	return y
}

// headLoss records the logits of the head, x [T, D], and the loss of them, to which a
// further loss [1] is added unless it is nil, with labels smoothed by a share. With a kernel the loss does not need the
// logits: they are computed if somebody keeps them.
func (s *site) headLoss(c *Context, head *Linear, most float64, x, further *autograd.Value,
	share float64) (logits, loss *autograd.Value) {
	logits = inPath(c, "lm_head", func() *autograd.Value { return logitsOf(c, head, most, x) })
	loss = inPath(c, "loss", func() *autograd.Value {
		op, in := crossEntropyOp(c, logits, share), []*autograd.Value{logits, c.labels, c.divisor}
		if s.patched() {
			op, in = fusedCrossEntropy(c, s, x, c.Leaf(head.Weight))
		}
		if further != nil && op.Backward != nil {
			op, in = plus(op, len(in)), append(in, further)
		}
		return c.G.Apply(op, in...)
	})
	return logits, loss
}

// fusedCrossEntropy returns the loss of CrossEntropy for the logits x*weight^T as one
// operation that has no logits, and its inputs: x [T, D], weight [V, D].
func fusedCrossEntropy(c *Context, s *site, x, weight *autograd.Value) (autograd.Op, []*autograd.Value) {
	op, err := autograd.KernelLoss(c.watched(s.kernel), s.facts, s.path, c.T(), c.Weigh)
	if err != nil {
		c.fail(fmt.Errorf("nn: %s: %w", s.path, err))
		op = autograd.Op{Name: s.path, Outputs: []autograd.Spec{autograd.Float32()}}
	}
	labels, share := targets(c, s.facts.Vocab)
	return op, []*autograd.Value{x, weight, labels, share}
}

// targets records the label that every position is scored against, negative for none,
// and its share of the loss: 1/Divisor, or 0. Both are [T].
func targets(c *Context, vocab int) (labels, share *autograd.Value) {
	t := c.T()
	out := c.G.ApplyAll(autograd.Op{Name: "targets", Outputs: []autograd.Spec{autograd.Int32(t), autograd.Float32(t)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			labels, divisor := in[0].Int32s(), in[1].Float32s()[0]
			if err := labelsInRange(labels, vocab, c.S); err != nil {
				return err
			}
			for r := range t {
				y, share := target(labels, r, c.S), float32(0)
				if y >= 0 {
					share = 1 / divisor
				}
				out[0].Int32s()[r], out[1].Float32s()[r] = int32(y), share
			}
			return nil
		},
	}, c.labels, c.divisor)
	return out[0], out[1]
}

// expSum returns the largest element and the sum of exp(x - largest), a piece of the row
// at a time.
func expSum(x, buf []float32) (high float32, sum float64) {
	high = simd.Max(x)
	for part := range slices.Chunk(x, len(buf)) {
		sum += simd.ExpSum(buf[:len(part)], part, 1, high)
	}
	return high, sum
}

// target returns the label that position r of the flattened batch is scored against,
// negative for none: the last position of a row predicts nothing.
func target(labels []int32, r, s int) int {
	if r%s == s-1 {
		return -1
	}
	return int(labels[r+1])
}

func labelsInRange(labels []int32, vocab, s int) error {
	for i, y := range labels {
		if y != data.Ignore && (y < 0 || int(y) >= vocab) {
			return fmt.Errorf("nn: label %d in row %d, position %d is neither %d nor within the vocabulary of %d", y, i/s, i%s,
				data.Ignore, vocab)
		}
	}
	return nil
}
