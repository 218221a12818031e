package main

import (
	"context"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
	plain "github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/progress"
)

// nanLater is a kernel that gives a NaN from its fourth call on.
type nanLater struct {
	core.Kernel
	calls int
}

func (k *nanLater) Forward(ctx context.Context, c *core.Call) error {
	err := k.Kernel.Forward(ctx, c)
	if k.calls++; k.calls > 3 {
		c.Out[0].Float32s()[0] = float32(math.NaN())
	}
	return err
}

// TestAKernelThatGivesNaNInAnEvaluationIsTakenOff: a loss that is not finite is measured once more, compared.
func TestAKernelThatGivesNaNInAnEvaluationIsTakenOff(t *testing.T) {
	mem, err := transport.NewMemory("eval", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	m, err := models.Load(filepath.Join(testdata.Shared(t, "data", "models"), "stories260K"), mem)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	var docs [][]int32
	for i := range int32(20) {
		docs = append(docs, []int32{i, i + 1, i + 2, i + 3, i + 4})
	}
	rows, err := data.Pack(docs, 8, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{stderr: io.Discard, progress: progress.New(io.Discard, io.Discard)}
	evaluate := func(in *inference) (r trainer.SetEval) {
		e := &evalFlags{}
		e.Batch, e.Seq = 2, 8
		if err := a.evalLoss(t.Context(), in, e, data.Slice(rows), &r, nil); err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := evaluate(&inference{model: m, memory: mem})
	reg := core.NewRegistry()
	if err := reg.Register(&nanLater{plain.Kernel(core.LinearCrossEntropy), 0}); err != nil {
		t.Fatal(err)
	}
	report, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all", core.Inference())
	if err != nil {
		t.Fatal(err)
	}
	in := &inference{model: m, memory: mem, report: report, check: a.checker(1000, false)}
	if got := evaluate(in); got.Loss != want.Loss {
		t.Errorf("loss %g, want that without the kernel, %g", got.Loss, want.Loss)
	}
}

// TestWeightsThatNoMemoryHoldsAreRefused before they are read, where a run of training is refused, too.
func TestWeightsThatNoMemoryHoldsAreRefused(t *testing.T) {
	f := newInferenceFlags()
	f.Model = filepath.Join(modelAndText(t, "llama"), "m")
	mem := transport.NewShapes("tensors")
	defer mem.Close()
	m, err := models.Shape(f.Model, mem, models.LoadOptions{Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	var weights int64
	for _, p := range m.Params() {
		weights += p.Bytes()
	}
	for total, refused := range map[int64]bool{0: false, weights: false, weights - 1: true} {
		if err := f.holds(m, total); (err != nil) != refused {
			t.Errorf("weights of %d bytes, %d bytes of memory: %v", weights, total, err)
		}
	}
}
