package trainer

import (
	"math"
	"regexp"
	"strings"

	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
)

// What a run makes of its configuration where other trainers have a convention: that of
// transformers' Trainer.

// epoch is a pass over the data: the last batch has what rows are left, and the last step
// what batches are.
type epoch struct{ batches, accumulate int }

func epochOf(rows int, c Config) epoch {
	return epoch{batches: (rows + c.Batch - 1) / c.Batch, accumulate: c.Accumulate}
}

// steps returns the optimizer steps of an epoch.
func (e epoch) steps() int { return (e.batches + e.accumulate - 1) / e.accumulate }

// batchesBefore returns the batches that are dealt before a step, which counts from 0.
func (e epoch) batchesBefore(step int) int {
	return step/e.steps()*e.batches + step%e.steps()*e.accumulate
}

// batchesOf returns the batches of a step.
func (e epoch) batchesOf(step int) int { return e.batchesBefore(step+1) - e.batchesBefore(step) }

// Schedule returns the learning rates of the run, and with them its steps: ceil(Epochs x
// steps of an epoch) unless Config.Steps says how many, where an epoch has
// ceil(ceil(rows/Batch)/Accumulate). A warm-up that is a share of the steps is rounded up.
func (j *Job) Schedule() optim.Schedule {
	c := j.Config
	steps := c.Steps
	if steps == 0 {
		steps = max(1, int(math.Ceil(c.Epochs*float64(epochOf(j.Train.Len(), c).steps()))))
	}
	return optim.Schedule{Decay: c.Schedule, Peak: c.LR, Warmup: c.warmup(steps), Steps: steps, Args: c.Args}
}

// undecayed matches the names of parameters that Trainer.get_decay_parameter_names of
// transformers leaves out of weight decay.
var undecayed = regexp.MustCompile(`(?i)bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)`)

// Undecayed reports whether weight decay leaves a parameter out, as HF Trainer does: the
// weights of norms and all biases. Adapters, embeddings, routers and experts decay.
func Undecayed(p *nn.Param) bool {
	name := p.Name
	if len(p.Entries) > 0 {
		name = p.Entries[0].Name // those of one parameter are of one kind
	}
	return undecayed.MatchString(name)
}

// Engine is what of the configuration an engine needs.
func (c Config) Engine() EngineConfig {
	e := EngineConfig{Batch: c.Batch, Seq: c.Seq, Accumulate: c.Accumulate, Clip: c.Clip, Seed: c.Seed,
		Optim: c.OptimConfig(), UpdateInBackward: c.Optimizer.UpdateInBackward,
		NoDecay: Undecayed, GradientCheckpointing: c.GradientCheckpointing,
		CheckpointParts: c.CheckpointParts, MaxKept: c.MaxKept,
		Preference: c.Preference, Trained: c.LoRA.Adapter != ""}
	if c.DecayAll {
		e.NoDecay = nil
	}
	if ratio := c.LoRA.PlusRatio; ratio != 0 {
		e.Rate = func(p *nn.Param) float64 {
			if strings.Contains(p.Name, "lora_B") || len(p.Tensor.Shape) == 1 {
				return ratio
			}
			return 1
		}
	}
	return e
}
