// Package crosscheck finds kernels that are wrong on a run's own tensors. A kernel may pass
// every check on made-up data and still be wrong for the sizes, the positions or the weights
// of one run; so its first call at each site and of each shape is compared with the plain
// formulas of the op, on the very tensors of that call, before anything is made of them.
//
// Compare does that for one call, and a Checker for all calls of a run.
//
// What is compared is every element of every output, with exceptions that keep the cost
// below that of the call. Of the caches of reshape_and_cache only the slots of the call are
// compared, losses without gradients for one token in four, and q, k and v of attention_pre
// for 16 tokens. Products of large matrices, which are all outputs of linear and qkv but
// those of biases, dx and dweight of linear_cross_entropy, and the gradients of
// gate_up_swiglu, and of moe_experts but drouting_weights, are compared row by row in their
// products with a few random directions (R. Freivalds, "Probabilistic machines can use less
// running time", 1977), which an error in any element of the row changes. Everything is
// computed in blocks: nothing as large as logits or attention scores is stored. Limits are
// derived from the rounding of float32; see rounding.
package crosscheck

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Mismatch is the place where an output of a call is the farthest from what the plain
// formulas give, beyond what rounding explains. It is an error that wraps
// core.ErrWrongResult.
type Mismatch struct {
	Tensor string // the output
	At     []int  // the element, or, with Row, the row
	Row    bool   // the numbers are those of a whole row, in its product with a random direction
	Got    float64
	Want   float64
	Limit  float64 // of the distance between them
}

// Error implements error.
func (m *Mismatch) Error() string {
	what := "element"
	if m.Row {
		what = "along a random direction, row"
	}
	return fmt.Sprintf("%s, %s %v: %.9g, the plain forward gives %.9g, which rounding moves by %.2g at most: %v",
		m.Tensor, what, m.At, m.Got, m.Want, m.Limit, core.ErrWrongResult)
}

// Unwrap returns core.ErrWrongResult.
func (m *Mismatch) Unwrap() error { return core.ErrWrongResult }

// Compare compares the outputs of a call that a kernel has answered with the plain
// formulas. It returns nil, a *Mismatch, or an error that wraps core.ErrNotSupported or
// core.ErrBadCall for a call that it cannot judge: activations other than float32, which no
// module of this project has, and inputs that every kernel has to refuse.
func Compare(c *core.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Facts.DType != core.Float32 || c.Facts.WeightDType == core.Float64 {
		return fmt.Errorf("crosscheck: %w: only activations in float32 are compared, these are %s", core.ErrNotSupported,
			c.Facts)
	}
	if c.Op == core.MoEExperts && c.Facts.Layout != core.Packed {
		return fmt.Errorf("crosscheck: %w: only packed experts are compared", core.ErrNotSupported)
	}
	compare := map[core.Op]func(*core.Call) []worst{
		core.RMSNorm: rmsNorm, core.AddRMSNorm: addRMSNorm, core.SwiGLU: swiglu, core.RoPE: rope,
		core.MoEGate: moeGate, core.MoEExperts: moeExperts, core.Attention: attention, core.LinearCrossEntropy: crossEntropy,
		core.Linear: linear, core.QKV: qkv, core.GateUpSwiGLU: gateUpSwiGLU, core.AttentionPre: attentionPre,
		core.LinearW8A8: linearW8A8, core.SharedExpertFFN: sharedExpertFFN,
		core.PagedAttention: pagedAttention, core.ReshapeAndCache: reshapeAndCache,
	}[c.Op]
	if compare == nil {
		return fmt.Errorf("crosscheck: %w: nothing here knows %s", core.ErrNotSupported, c.Op)
	}
	for _, w := range compare(c) {
		if w.ratio > 0 {
			return w.mismatch(c)
		}
	}
	return nil
}

// worst is the element of an output that is the farthest beyond its limit.
type worst struct {
	tensor           string
	row              bool // indices are those of rows
	at               int
	got, want, limit float64
	ratio            float64 // of the distance to the limit; 0 as long as all are within theirs
}

// see judges element i.
func (w *worst) see(i int, got, want, limit float64) {
	if d := math.Abs(got - want); !(d <= limit) {
		w.judge(i, got, want, limit, d/limit)
	}
}

// judge takes what is not within its limit, or is not finite. A value beyond float32, and
// one whose terms may be, has no limit: infinities meet as NaN in one order of the terms
// and not in another. But what is NaN must not be hidden.
func (w *worst) judge(i int, got, want, limit, ratio float64) {
	switch {
	case math.IsInf(limit, 1), got == want:
		return
	case !finite(want):
		if !finite(got) {
			return
		}
	case math.IsNaN(limit):
		return
	}
	if math.IsNaN(ratio) {
		ratio = math.Inf(1)
	}
	if ratio > w.ratio || ratio == w.ratio && i < w.at {
		w.at, w.got, w.want, w.limit, w.ratio = i, got, want, limit, ratio
	}
}

// merge takes the worse of both.
func (w *worst) merge(v worst) {
	if v.ratio > w.ratio || v.ratio == w.ratio && v.at < w.at {
		*w = v
	}
}

func (w worst) mismatch(c *core.Call) *Mismatch {
	shape := c.Output(w.tensor).Shape
	if w.row {
		shape = shape[:len(shape)-1]
	}
	at := make([]int, len(shape))
	for i, axis := w.at, len(shape)-1; axis >= 0; axis-- {
		at[axis] = i % shape[axis]
		i /= shape[axis]
	}
	return &Mismatch{Tensor: w.tensor, At: at, Row: w.row, Got: w.got, Want: w.want, Limit: w.limit}
}

// named starts a search for each tensor.
func named(tensors ...string) []worst {
	found := make([]worst, len(tensors))
	for i, t := range tensors {
		found[i].tensor = t
	}
	return found
}

// grain is how many elements make it worth another goroutine.
const grain = 1 << 12

// each calls f for parts of n rows of so many elements, from several goroutines, and puts
// what they find into found. The worst of all does not depend on how they were divided.
func each(found []worst, n, elems int, f func(lo, hi int, found []worst)) {
	start := slices.Clone(found)
	var mu sync.Mutex
	simd.Parallel(n, max(1, grain/max(elems, 1)), func(lo, hi int) {
		own := slices.Clone(start)
		f(lo, hi, own)
		mu.Lock()
		defer mu.Unlock()
		for i := range found {
			found[i].merge(own[i])
		}
	})
}
