package trainer_test

import (
	"crypto/sha256"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// contents notes which bytes had which number, over all calls of a kernel.
type contents struct {
	seen  map[uint64][32]byte
	sites map[string]map[uint64]bool // of the weight
	wrong []string
}

// witness is a kernel of linear that looks at the numbers of its inputs.
func (c *contents) witness() core.Kernel {
	c.seen, c.sites = map[uint64][32]byte{}, map[string]map[uint64]bool{}
	return keeping{&faulty{reference.Kernel(core.Linear), "witness", func(call *core.Call) {
		for _, x := range call.In {
			if x.Content == 0 {
				continue
			}
			sum := sha256.Sum256(x.Data)
			if was, ok := c.seen[x.Content]; ok && was != sum {
				c.wrong = append(c.wrong, call.Site)
			}
			c.seen[x.Content] = sum
		}
		if c.sites[call.Site] == nil {
			c.sites[call.Site] = map[uint64]bool{}
		}
		c.sites[call.Site][call.Input("weight").Content] = true
	}}}
}

// keeping is a kernel that says that it keeps what it makes of frozen weights.
type keeping struct{ core.Kernel }

func (k keeping) Info() core.Info {
	i := k.Kernel.Info()
	i.Keeps = true
	return i
}

// check wants no number to have had two contents, and so many numbers of each weight.
func (c *contents) check(t *testing.T, numbers int) {
	t.Helper()
	if len(c.wrong) > 0 {
		t.Errorf("inputs of %v changed and kept their numbers", c.wrong)
	}
	if len(c.sites) == 0 {
		t.Error("the kernel was not called")
	}
	for site, of := range c.sites {
		if of[0] || len(of) != numbers {
			t.Errorf("the weight of %s had the numbers %v, want %d", site, of, numbers)
		}
	}
}

func patchWitness(t *testing.T, c *contents) func(m *models.Model) {
	return func(m *models.Model) {
		t.Helper()
		reg := core.NewRegistry()
		if err := reg.Register(c.witness()); err != nil {
			t.Fatal(err)
		}
		if _, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestATrainedWeightHasAnotherNumberAfterEachStep, and the same one within it, in evaluations
// and in several batches of a step.
func TestATrainedWeightHasAnotherNumberAfterEachStep(t *testing.T) {
	for name, change := range map[string]func(*trainer.EngineConfig){
		"several batches": func(e *trainer.EngineConfig) { e.Accumulate = 2 },
		"at once":         atOnce,
		"at once, computed again": func(e *trainer.EngineConfig) {
			e.UpdateInBackward, e.GradientCheckpointing = true, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c contents
			r := newRun(t, autograd.Heap{}, patchWitness(t, &c), change)
			for range 3 {
				if _, _, err := r.engine.Evaluate(t.Context(), data.Batches(rows(t, 17)[:3], 3)); err != nil {
					t.Fatal(err)
				}
				if _, err := r.engine.Step(t.Context(), r.next(), 1e-2); err != nil {
					t.Fatal(err)
				}
			}
			c.check(t, 3)
		})
	}
}

// TestAFrozenWeightKeepsItsNumber until adapters are merged into it.
func TestAFrozenWeightKeepsItsNumber(t *testing.T) {
	var c contents
	r := newLoRARun(t, autograd.Heap{}, tinyFolder(t), lora.Config{Rank: 4}, patchWitness(t, &c)).steps(3)
	c.check(t, 1)
	if err := r.model.Adapter.Merge(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.engine.Evaluate(t.Context(), data.Batches(rows(t, 17)[:3], 3)); err != nil {
		t.Fatal(err)
	}
	delete(c.sites, "lm_head") // which has no adapter
	c.check(t, 2)
}

// TestWeightsThatAreReadAgainGetOtherNumbers: a run that is resumed begins with the weights that
// the model had at first.
func TestWeightsThatAreReadAgainGetOtherNumbers(t *testing.T) {
	var c contents
	k := c.witness()
	out := filepath.Join(t.TempDir(), "out")
	first := checkedJob(t, autograd.Heap{}, "witness", func(c *trainer.Config) {
		c.Out, c.CheckEvery, c.Checkpoints.SaveEvery = out, 0, 2
	}, k)
	if _, err := first.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	resume, err := trainer.OpenCheckpoint(filepath.Join(out, "checkpoint-2"))
	if err != nil {
		t.Fatal(err)
	}
	again := checkedJob(t, autograd.Heap{}, "witness", func(c *trainer.Config) { *c = resume.State.Config }, k)
	again.Config.Out = filepath.Join(t.TempDir(), "again")
	again.Resume = resume
	if _, err := again.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.check(t, 5+3)
}
