package trainer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

// TestAModelThatOutgrowsItsDTypeIsSaved with one warning, that of its checkpoint if there is one,
// and can be trained further.
func TestAModelThatOutgrowsItsDTypeIsSaved(t *testing.T) {
	for name, every := range map[string]int{"the model": 0, "a checkpoint": 1} {
		t.Run(name, func(t *testing.T) { outgrow(t, every) })
	}
}

func outgrow(t *testing.T, saveEvery int) {
	j := job(t)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	var tensors []checkpoint.Named
	for _, p := range j.Model.Params() {
		for _, e := range p.Entries {
			half := core.NewTensor(core.Float16, e.Shape...)
			half.Store(e.View(p.Tensor).Float32s(), 0)
			tensors = append(tensors, checkpoint.Named{Name: e.Name, Tensor: half})
		}
	}
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(tiny), 0o666); err != nil {
		t.Fatal(err)
	}
	var err error
	if j.Model, err = models.Load(dir, j.Memory); err != nil {
		t.Fatal(err)
	}
	grown := j.Model.Params()[0]
	grown.Tensor.Float32s()[5] = 70000
	j.Config.Model, j.Config.Out, j.Config.Steps = dir, out, 1
	j.Config.Checkpoints.SaveEvery = saveEvery
	var warned []string
	before := 0
	j.Hooks.OnCheckpoint = func(trainer.Checkpoint) { before = len(warned) }
	j.Hooks.OnWarning = func(err error) { warned = append(warned, err.Error()) }
	run1(t, j)
	if before != saveEvery {
		t.Errorf("%d warnings before the checkpoint, want %d", before, saveEvery)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], grown.Name) || !strings.Contains(warned[0], "float32") {
		t.Errorf("warned of %q, want one warning that names %s", warned, grown.Name)
	}
	again, err := models.Load(out, j.Memory)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.Params()[0].Tensor.Float32s()[5], grown.Tensor.Float32s()[5]; got != want || got < 65520 {
		t.Errorf("saved as %g, want %g", got, want)
	}
}
