package demo

import (
	"context"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/nn"
)

// A right answer is the likeliest one token by token: then, and only then, the model that
// reads the right answer predicts each of its tokens from those before.
func TestCheckAgreesWithTeacherForcing(t *testing.T) {
	d, _ := drilled(t, "")
	score, err := d.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for i, e := range d.Held {
		want := d.predicts(t, e)
		if score.Answers[i].Right != want || want && score.Answers[i].Got != e.Want {
			t.Errorf("%+v, but with teacher forcing that is %v", score.Answers[i], want)
		}
		if want {
			right++
		}
	}
	if score.Right != right || score.Total != len(d.Held) {
		t.Errorf("%d of %d right, want %d of %d", score.Right, score.Total, right, len(d.Held))
	}
	if right < 4 || right > 16 {
		t.Errorf("%d of %d right: the test needs a model that knows some", right, score.Total)
	}
}

// predicts reads the example with its answer in one pass.
func (d *Demo) predicts(t *testing.T, e Example) bool {
	rows, err := d.rows([]Example{e})
	if err != nil {
		t.Fatal(err)
	}
	seq := d.Job.Config.Seq
	c, err := nn.NewContext(d.Job.Memory, 1, seq, seq)
	if err != nil {
		t.Fatal(err)
	}
	out := d.Job.Model.Forward(c)
	out.Logits.Keep()
	program, err := d.Job.Model.Compile(c, out.Loss, true)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for b := range data.Batches(rows, 1) {
		if err := program.Batch.Fill(b, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := program.Forward(context.Background()); err != nil {
		t.Fatal(err)
	}
	logits := program.Tensor(out.Logits)
	for i, label := range rows[0].Labels {
		if label == data.Ignore {
			continue
		}
		v := logits.Shape[1]
		row := logits.Float32s()[(i-1)*v:][:v]
		if slices.Max(row) != row[label] {
			return false
		}
	}
	return true
}

func TestCheckRunsThroughKernels(t *testing.T) {
	d, _ := drilled(t, "")
	plain, err := d.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range d.Job.Model.Sites() { // fails while a graph is open
		if err := s.Hook.Swap(reference.Kernel(s.Op)); err != nil {
			t.Fatal(err)
		}
	}
	fused, err := d.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if fused.Right != plain.Right || plain.Right == 0 {
		t.Errorf("%d right with kernels, %d without", fused.Right, plain.Right)
	}
}

func TestCheckHeedsItsContext(t *testing.T) {
	d := newDemo(t, defaults())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := d.Check(ctx); err == nil {
		t.Error("no error")
	}
}
