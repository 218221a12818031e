package nn

import (
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/autograd"
)

// loadBalancing is the formula as it is published, one choice at a time: the share of
// tokens whose k-th choice is an expert, times the mean probability of that expert, summed
// over both and multiplied by the experts. Layers follow each other in logits; a token
// counts where real is true.
func loadBalancing(logits [][]float64, ids [][]int32, counts []bool) float64 {
	experts, n := len(logits[0]), 0.0
	share, prob := make([][]float64, len(ids[0])), make([]float64, experts)
	for k := range share {
		share[k] = make([]float64, experts)
	}
	for i, row := range logits {
		if !counts[i%len(counts)] {
			continue
		}
		n++
		total := 0.0
		for _, v := range row {
			total += math.Exp(v)
		}
		for e, v := range row {
			prob[e] += math.Exp(v) / total
		}
		for k, e := range ids[i] {
			share[k][e]++
		}
	}
	loss := 0.0
	for _, s := range share {
		for e := range s {
			loss += s[e] / n * prob[e] / n
		}
	}
	return loss * float64(experts)
}

// TestTheBalanceIsThePublishedLoss compares value and gradient with the formula and with
// its differences in float64.
func TestTheBalanceIsThePublishedLoss(t *testing.T) {
	for _, weights := range [][2]float64{{0.7, 0}, {0, 0.3}, {0.7, 0.3}} {
		theBalance(t, weights[0], weights[1])
	}
}

// logSquares is the mean of the squares of the rows' log-sums, of those that count.
func logSquares(rows [][]float64, counts []bool) float64 {
	sum, n := 0.0, 0.0
	for i, row := range rows {
		if !counts[i%len(counts)] {
			continue
		}
		all := 0.0
		for _, x := range row {
			all += math.Exp(x)
		}
		sum, n = sum+math.Pow(math.Log(all), 2), n+1
	}
	return sum / n
}

func theBalance(t *testing.T, weight, z float64) {
	t.Helper()
	const tokens, experts, k, layers = 12, 5, 2, 3
	c := newContext(t, 2, tokens/2)
	rng := newRand(1)
	b := randomBatch(rng, 2, tokens/2, 9)
	counts := make([]bool, tokens)
	for i := range counts {
		if counts[i] = i < 4 || i >= 6; !counts[i] { // padding at the end of the first row
			b.Segments[i], b.Labels[i] = 0, -100
		}
	}
	fill(t, c, b)
	var wrt []*autograd.Value
	var rows [][]float64
	for range layers {
		x := normal(rng, tokens*experts)
		logits := param(c, "logits", x, tokens, experts)
		_, ids := topK(c.G, softmaxRows(c.G, logits), k)
		wrt = append(wrt, logits)
		c.routed = append(c.routed, routes{logits: logits, ids: ids.Keep()})
		for row := range slices.Chunk(wide(x), experts) {
			rows = append(rows, row)
		}
	}
	y := balance(c, weight, z)
	prog := execute(t, c, []*autograd.Value{y}, [][]float32{{1.5}}, wrt...)
	var ids [][]int32
	for _, r := range c.routed {
		ids = slices.AppendSeq(ids, slices.Chunk(prog.Tensor(r.ids).Int32s(), k))
	}
	value := func() float64 { return weight*loadBalancing(rows, ids, counts) + z*logSquares(rows, counts) }
	near(t, "value", prog.Tensor(y).Float32s(), []float64{value()}, 0x1p-22)
	const h = 1e-5
	for layer, logits := range wrt {
		var want []float64
		for i := range tokens * experts {
			v := &rows[layer*tokens+i/experts][i%experts]
			start := *v
			*v = start + h
			above := value()
			*v = start - h
			below := value()
			*v = start
			want = append(want, 1.5*(above-below)/(2*h))
		}
		near(t, "gradient", prog.Grad(logits).Float32s(), want, 1e-6)
	}
}

// balanceOf runs both passes of a model of two sparse layers.
func balanceOf(t *testing.T, weight float64, divisor int, kernels,
	checkpoint bool) (loss, part float64, router, expert []float32) {
	t.Helper()
	d := newDecoder(t, tiny(withExperts(2, true), balanced(weight)), 2)
	if kernels {
		for _, s := range d.Sites() {
			if err := s.Hook.Swap(reference.Kernel(s.Op)); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := newContext(t, 2, 6)
	c.Checkpoint = checkpoint
	batch := randomBatch(newRand(3), 2, 6, d.Vocab())
	if err := c.Batch().Fill(batch, divisor); err != nil {
		t.Fatal(err)
	}
	out := d.Forward(c)
	if out.Balance != nil {
		out.Balance.Keep()
	}
	prog, err := d.Compile(c, out.Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	if loss, err = prog.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := prog.Backward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out.Balance != nil {
		part = float64(prog.Tensor(out.Balance).Float32s()[0])
	}
	moe := d.layers[1].block.(*MoE)
	return loss, part, slices.Clone(prog.Gradient(moe.router.gate.Weight)), slices.Clone(prog.Gradient(moe.down))
}

func TestTheBalanceIsAPartOfTheLoss(t *testing.T) {
	plain, none, before, experts := balanceOf(t, 0, 10, false, false)
	if none != 0 {
		t.Errorf("without a weight the balance is %v", none)
	}
	const weight = 0.5
	loss, part, router, balancedExperts := balanceOf(t, weight, 10, false, false)
	if part <= 0 || !(math.Abs(loss-plain-part) <= 1e-6) {
		t.Errorf("loss %v with a balance of %v, without %v", loss, part, plain)
	}
	equal(t, "gradient of the last experts", balancedExperts, experts)
	if slices.Equal(router, before) {
		t.Error("the gradient of the balance does not reach the router")
	}
	for name, form := range map[string][2]bool{"kernels": {true, false}, "checkpoint": {false, true}} {
		l, p, r, _ := balanceOf(t, weight, 10, form[0], form[1])
		near(t, name+": loss", []float32{float32(l)}, []float64{loss}, 1e-6)
		near(t, name+": balance", []float32{float32(p)}, []float64{part}, 1e-6)
		near(t, name+": gradient of the router", r, router, 1e-5)
	}
}

// TestAccumulatedBatchesShareTheBalance: with the divisor of two equal batches, each has
// half of the balance, as it has half of the loss.
func TestAccumulatedBatchesShareTheBalance(t *testing.T) {
	whole, part, router, _ := balanceOf(t, 0.5, 10, false, false)
	half, halfPart, halfRouter, _ := balanceOf(t, 0.5, 20, false, false)
	near(t, "loss", []float32{float32(2 * half)}, []float64{whole}, 1e-6)
	near(t, "balance", []float32{float32(2 * halfPart)}, []float64{part}, 1e-6)
	for i := range halfRouter {
		halfRouter[i] *= 2
	}
	near(t, "gradient of the router", halfRouter, router, 1e-6)
}

func TestABatchOfPaddingHasNoBalance(t *testing.T) {
	d := newDecoder(t, tiny(withExperts(2, true), balanced(1)), 1)
	c := newContext(t, 1, 4)
	b := plainBatch(1, 4)
	clear(b.Segments)
	fill(t, c, b)
	out := d.Forward(c)
	if v := forward(t, c, out.Balance); v[0] != 0 {
		t.Errorf("the balance of padding is %v", v[0])
	}
}

func TestABufferIsNoParameter(t *testing.T) {
	d := newDecoder(t, tiny(withSigmoids), 1)
	for _, p := range d.Params() {
		if slices.Contains(d.Buffers(), p) {
			t.Errorf("%s is a parameter too", p.Name)
		}
	}
	if len(d.Buffers()) != 2 || d.Buffers()[1].Name != "model.layers.1.mlp.gate.e_score_correction_bias" {
		t.Errorf("buffers %v", d.Buffers())
	}
	if dtype := d.Buffers()[0].Tensor.DType; dtype != core.Float32 {
		t.Errorf("a buffer is %s", dtype)
	}
}
