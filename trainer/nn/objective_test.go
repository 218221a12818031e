package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
)

// TestTheNoiseHasThePublishedMagnitude compares alpha/sqrt(L D) with what transformers computes.
func TestTheNoiseHasThePublishedMagnitude(t *testing.T) {
	recorded(t, "neftune", func(t *testing.T, r recording) {
		var p struct {
			Alpha  float64 `json:"neftune_noise_alpha"`
			Length int     `json:"padded_length"`
			Width  int     `json:"hidden_size"`
		}
		r.read(&p)
		want := r.tensor("f32.mag").Float32s()[0]
		if got := noiseMagnitude(p.Alpha, p.Length, p.Width); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestTheNoiseIsUniform: in training alone, another in each batch and the same in a batch that
// is computed again.
func TestTheNoiseIsUniform(t *testing.T) {
	const rows, s, width, alpha = 2, 50, 40, 5
	noiseOf := func(training bool, word uint64) []float32 {
		c := newContext(t, rows, s)
		c.Training = training
		segments := slices.Repeat([]int32{1}, rows*s)
		clear(segments[30:s]) // the first row has 30 tokens, the second 40
		clear(segments[s+40:])
		fill := data.Batch{B: rows, S: s, IDs: make([]int32, rows*s), Labels: make([]int32, rows*s),
			Positions: make([]int32, rows*s), Segments: segments}
		if err := c.Batch().Fill(fill, 1); err != nil {
			t.Fatal(err)
		}
		c.Batch().Draw(3, word)
		h := param(c, "h", make([]float32, rows*s*width), rows*s, width)
		y := Objective{Noise: alpha}.noisy(c, h)
		values, grads := run(t, c, []*autograd.Value{y}, [][]float32{slices.Repeat([]float32{2}, rows*s*width)}, h)
		if slices.ContainsFunc(grads[0], func(g float32) bool { return g != 2 }) {
			t.Error("the gradient does not pass as it is")
		}
		return values[0]
	}
	if off := noiseOf(false, 1); slices.ContainsFunc(off, func(v float32) bool { return v != 0 }) {
		t.Error("there is noise without training")
	}
	a := noiseOf(true, 1)
	if !slices.Equal(a, noiseOf(true, 1)) || slices.Equal(a, noiseOf(true, 2)) {
		t.Error("the noise is not a function of the batch's number")
	}
	most := alpha / math.Sqrt(40*width)
	sum, squares, largest := 0.0, 0.0, 0.0
	for _, v := range wide(a) {
		sum, squares, largest = sum+v, squares+v*v, max(largest, math.Abs(v))
	}
	n := float64(len(a))
	if std := math.Sqrt(squares / n); !(math.Abs(std/(most/math.Sqrt(3))-1) <= 0.02) || !(math.Abs(sum/n) <= most/30) ||
		largest > most || largest < 0.99*most {
		t.Errorf("mean %g, deviation %g, largest %g; want 0, %g, %g", sum/n, std, largest, most/math.Sqrt(3), most)
	}
}

// TestPaddingAloneHasNoiseThatIsFinite: such is the batch of a rank for which no rows are left.
func TestPaddingAloneHasNoiseThatIsFinite(t *testing.T) {
	const s, width = 3, 4
	c := newContext(t, 1, s)
	c.Training = true
	fill := data.Batch{B: 1, S: s, IDs: make([]int32, s), Labels: slices.Repeat([]int32{data.Ignore}, s),
		Positions: make([]int32, s), Segments: make([]int32, s)}
	if err := c.Batch().Fill(fill, 1); err != nil {
		t.Fatal(err)
	}
	c.Batch().Draw(1, 2)
	h := param(c, "h", make([]float32, s*width), s, width)
	values, _ := run(t, c, []*autograd.Value{Objective{Noise: 5}.noisy(c, h)}, [][]float32{make([]float32, s*width)}, h)
	for i, v := range wide(values[0]) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("element %d is %g", i, v)
		}
	}
}

// TestLabelsAreSmoothed compares with the definition, in float64: the cross-entropy of a target
// that has 1 - share at the label and share/V everywhere besides.
func TestLabelsAreSmoothed(t *testing.T) {
	const s, v, share, divisor = 4, 7, 0.3, 5
	x := normal(newRand(2), s*v)
	for i := range x {
		x[i] += 40 // so that what cancels would show
	}
	labels := []int32{data.Ignore, 3, data.Ignore, 0}
	c := newContext(t, 1, s)
	copy(c.batch.Labels, labels)
	c.batch.Divisor[0] = divisor
	logits := param(c, "logits", x, s, v)
	loss := c.G.Apply(crossEntropyOp(c, logits, share), logits, c.labels, c.divisor)
	values, grads := run(t, c, []*autograd.Value{loss}, [][]float32{{1}}, logits)
	want, dwant := 0.0, make([]float64, len(x))
	for r, y := range map[int]int{0: 3, 2: 0} {
		row := wide(x[r*v : (r+1)*v])
		sum := 0.0
		for _, l := range row {
			sum += math.Exp(l)
		}
		for i, l := range row {
			target := share / v
			if i == y {
				target += 1 - share
			}
			want += target * (math.Log(sum) - l) / divisor
			dwant[r*v+i] = (math.Exp(l)/sum - target) / divisor
		}
	}
	near(t, "loss", values[0], []float64{want}, 0x1p-21)
	near(t, "gradient", grads[0], dwant, 0x1p-20)
}

// TestAnObjectiveIsOfTraining: what it adds is in the training loss, and not in an evaluation's.
func TestAnObjectiveIsOfTraining(t *testing.T) {
	lossOf := func(o Objective, training bool) float64 {
		d := newDecoder(t, tiny(withExperts(2, true)), 2)
		if err := d.SetObjective(o); err != nil {
			t.Fatal(err)
		}
		c := newContext(t, 2, 6)
		c.Training = training
		if err := c.Batch().Fill(randomBatch(newRand(3), 2, 6, d.Vocab()), 10); err != nil {
			t.Fatal(err)
		}
		c.Batch().Draw(1)
		prog, err := d.Compile(c, d.Forward(c).Loss, false)
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		loss, err := prog.Forward(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return loss
	}
	plain := lossOf(Objective{}, true)
	for name, o := range map[string]Objective{"noise": {Noise: 5}, "smoothing": {Smoothing: 0.1}, "z": {RouterZ: 0.1}} {
		if got := lossOf(o, true); got == plain {
			t.Errorf("%s changes nothing", name)
		}
		if got := lossOf(o, false); got != plain {
			t.Errorf("%s: an evaluation gives %v, want %v", name, got, plain)
		}
	}
}

func TestObjectivesAreChecked(t *testing.T) {
	dense := newDecoder(t, tiny(), 1)
	for want, o := range map[string]Objective{"Noise is -1": {Noise: -1}, "Smoothing is 1": {Smoothing: 1},
		"Balance is NaN": {Balance: math.NaN()},
		"RouterZ is 0.1, but no router of the model has such a loss": {RouterZ: 0.1}} {
		if err := dense.SetObjective(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", o, err, want)
		}
	}
	for smoothing, noise := range []float64{1, 0} {
		if err := dense.SetObjective(Objective{Smoothing: 0.1 * float64(smoothing), Noise: noise}); err != nil {
			t.Fatal(err)
		}
		for _, s := range dense.Sites() {
			if is := s.Path == "loss" && smoothing > 0; is != strings.Contains(s.Plain, "smoothed") {
				t.Errorf("%s: plain for %q", s.Path, s.Plain)
			}
		}
	}
}
