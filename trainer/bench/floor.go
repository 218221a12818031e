package bench

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// Floor is the least time that a step takes on this machine, however it is computed: its
// matrix products at the best rate of the run, and then the optimizer at the bandwidth of
// memory, which can only begin when all gradients are there. Everything between products
// could be done while their tiles are in registers, so it counts nothing.
//
// Products are those that the gradients need. A matrix of m by k, applied to n rows, is
// 2nmk operations forward, as many for the gradient of its input and as many for its own;
// a frozen weight has no gradient, nor has what lies below all that is trained. Attention
// has two products forward and four backward for the pairs of a query and a key that it
// sees. The head counts for the positions that predict a token. What is computed a second
// time to spare memory, for gradient checkpointing or by a fused kernel, is not needed, so
// that a step over its floor shows what the memory costs.
//
// The optimizer reads each trained parameter, its gradient and two moments, and writes all
// but the gradient: 28 bytes in float32. The norm of the gradients reads them once before:
// 32 bytes in all. AdamW overwrites what it has read, which Ceilings.Bandwidth does not, so
// that it can be faster than its part of the floor by up to a quarter.
type Floor struct {
	Products  float64 `json:"product_flops"` // of a step
	Bytes     float64 `json:"optimizer_bytes"`
	Rate      float64 `json:"product_flop_per_s"` // 0 where the ceilings were not measured, and so is MS
	Bandwidth float64 `json:"bandwidth_bytes_per_s"`
	MS        float64 `json:"ms"`
}

// newFloor needs the products of a step, the bytes that its optimizer moves, and the rate of
// products that somebody else has reached, if it is higher. Without a rate there is no floor.
func newFloor(products, moved float64, limits ceiling.Ceilings, rate float64) Floor {
	f := Floor{Products: products, Bytes: moved}
	if best := max(limits.Products, rate); limits.Threads > 0 && best > 0 {
		f.Rate, f.Bandwidth = best, limits.Bandwidth
		f.MS = f.computeMS() + f.updateMS()
	}
	return f
}

// The two parts of a floor.
func (f Floor) computeMS() float64 { return 1000 * f.Products / f.Rate }
func (f Floor) updateMS() float64  { return 1000 * f.Bytes / f.Bandwidth }

// String says what the floor is made of.
func (f Floor) String() string {
	return fmt.Sprintf("floor of a step: %s ms: %s for %s,\n                 %s for %s", amount.Digits(f.MS),
		amount.Digits(f.computeMS()), f.compute(), amount.Digits(f.updateMS()), f.update())
}

// compute and update say what the two parts are the time of.
func (f Floor) compute() string {
	return fmt.Sprintf("%s GFLOP of products at %s", amount.Digits(f.Products/1e9), gflops(f.Rate))
}

func (f Floor) update() string {
	return fmt.Sprintf("%s GB of the optimizer at %s GB/s", amount.Digits(f.Bytes/1e9), amount.Digits(f.Bandwidth/1e9))
}

// overFloor is the step of a variant over the floor; a dash where that is not known.
func (v *Measured) overFloor() string {
	if v.OverFloor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v.OverFloor)
}

// neededProducts counts the operations in matrix products that a step of the model needs,
// by its plain form: the model must not be patched yet. Its graph is recorded, not made.
func neededProducts(m *models.Model, o Options) (float64, error) {
	c, err := nn.NewContext(o.Memory, o.Batch, o.Seq, o.Seq)
	if err != nil {
		return 0, err
	}
	c.Training = true
	size, err := m.Size(c, m.Forward(c).Loss, false)
	if err != nil {
		return 0, err
	}
	n := 0.0
	for _, s := range size.Stats {
		if !s.Again {
			n += s.Work.Products
		}
	}
	for _, s := range m.Sites() { // the last position of a row predicts nothing
		if s.Op == core.LinearCrossEntropy {
			n -= core.NewWork(s.Op, core.Backward, s.Facts, o.Batch, o.Seq).Products
		}
	}
	return n * float64(o.Accumulate), nil
}
