package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
)

// crossEntropy returns the loss and its gradient for these labels, in rows of s.
func crossEntropy(t *testing.T, x []float32, s int, labels []int32, divisor int) (loss float32, grad []float32) {
	t.Helper()
	c := newContext(t, len(labels)/s, s)
	copy(c.batch.Labels, labels)
	c.batch.Divisor[0] = float32(divisor)
	logits := param(c, "logits", x, len(labels), len(x)/len(labels))
	values, grads := run(t, c, []*autograd.Value{CrossEntropy(c, logits)}, [][]float32{{1}}, logits)
	return values[0][0], grads[0]
}

func TestLossIsTheMeanNegativeLogLikelihoodOfTheNextToken(t *testing.T) {
	const rows, s, v = 2, 4, 5
	x := normal(newRand(1), rows*s*v)
	labels := []int32{0, 1, data.Ignore, 3, 4, data.Ignore, 2, 0}
	loss, grad := crossEntropy(t, x, s, labels, 4)
	want, dwant := 0.0, make([]float64, len(x))
	for r, y := range map[int]int{0: 1, 2: 3, 5: 2, 6: 0} { // position, and the label after it
		sum := 0.0
		for _, l := range x[r*v : (r+1)*v] {
			sum += math.Exp(float64(l))
		}
		want += (math.Log(sum) - float64(x[r*v+y])) / 4
		for i := range v {
			dwant[r*v+i] = math.Exp(float64(x[r*v+i])) / sum / 4
		}
		dwant[r*v+y] -= 0.25
	}
	near(t, "loss", []float32{loss}, []float64{want}, 0x1p-22)
	near(t, "gradient", grad, dwant, 0x1p-21)
}

func TestIgnoredLabelsGiveExactlyNoGradient(t *testing.T) {
	const s, v = 5, 7
	x := normal(newRand(1), s*v)
	_, grad := crossEntropy(t, x, s, []int32{data.Ignore, data.Ignore, 3, data.Ignore, data.Ignore}, 1)
	for r := range s {
		row := grad[r*v : (r+1)*v]
		if zero := !slices.ContainsFunc(row, func(g float32) bool { return g != 0 }); zero != (r != 1) {
			t.Errorf("position %d: gradient %v", r, row)
		}
	}
}

func TestTheDivisorScalesLossAndGradient(t *testing.T) {
	const s, v = 4, 6
	x := normal(newRand(1), s*v)
	labels := []int32{0, 1, 2, 3}
	one, g1 := crossEntropy(t, x, s, labels, 1)
	eight, g8 := crossEntropy(t, x, s, labels, 8)
	for i := range g1 {
		g1[i] /= 8 // exact
	}
	equal(t, "loss", []float32{eight}, []float32{one / 8})
	equal(t, "gradient", g8, g1)
}

func TestLogitsOfAnySizeGiveFiniteLosses(t *testing.T) {
	for _, size := range []float32{1e-30, 1, 1e3, 1e30} {
		x := normal(newRand(1), 3*8)
		for i := range x {
			x[i] *= size
		}
		loss, grad := crossEntropy(t, x, 3, []int32{0, 1, 2}, 2)
		if grad = append(grad, loss); slices.ContainsFunc(grad, func(g float32) bool { return g-g != 0 }) {
			t.Errorf("logits around %g: loss and gradient %v", size, grad)
		}
	}
}

func TestIndicesOutsideTheirTablesAreNamed(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Batch)
		want   string
	}{
		{"token", func(b *Batch) { b.IDs[6] = 23 }, "token id 23 in row 1, position 2 is outside [0, 23)"},
		{"negative token", func(b *Batch) { b.IDs[0] = -1 }, "token id -1 in row 0, position 0"},
		{"position", func(b *Batch) { b.Positions[3] = 4 }, "position 4 in row 0, position 3 is outside [0, 4)"},
		{"negative position", func(b *Batch) { b.Positions[7] = -2 }, "position -2 in row 1, position 3"},
		{"label", func(b *Batch) { b.Labels[5] = 23 },
			"label 23 in row 1, position 1 is neither -100 nor within the vocabulary of 23"},
		{"negative label", func(b *Batch) { b.Labels[5] = -1 }, "label -1 in row 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDecoder(t, tiny(), 1)
			c := newContext(t, 2, 4)
			tt.change(c.Batch())
			prog, err := d.Compile(c, d.Forward(c).Loss, true)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := prog.Forward(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestABatchOfAnotherSizeIsRefused(t *testing.T) {
	c := newContext(t, 2, 4)
	if err := c.Batch().Fill(plainBatch(4, 2), 1); err == nil || !strings.Contains(err.Error(),
		"a batch of 4x2 for a graph of 2x4") {
		t.Errorf("error %v", err)
	}
}

func TestThePaddingTokensEmbeddingGetsNoGradient(t *testing.T) {
	for _, padding := range []int{-1, 2} {
		c := newContext(t, 1, 4)
		copy(c.batch.IDs, []int32{2, 1, 2, 3})
		e := NewEmbedding(NewBuilder(autograd.Heap{}), "embed", 5, 1, padding)
		_, grads := run(t, c, []*autograd.Value{e.Forward(c)}, [][]float32{{1, 10, 100, 1000}}, c.Leaf(e.Weight))
		want := []float32{0, 10, 101, 1000, 0}
		if padding == 2 {
			want[2] = 0
		}
		equal(t, "gradient", grads[0], want)
	}
}
