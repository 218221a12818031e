package trainer

import (
	"fmt"
	"os"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/metric"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// MemoryError is the error of a run that needs more memory than is free, before it takes
// any. With Config.Force a run is not asked.
type MemoryError struct {
	Bytes int64 // that the run needs, at least
	Free  int64 // that it can have
}

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("trainer: the run needs %s of memory, and %s are free", amount.Bytes(uint64(e.Bytes)), amount.Bytes(uint64(e.Free)))
}

// enough compares what a run needs with what is free, of which it has some already. Where
// nothing tells what is free, anything is enough.
func enough(need, free, has int64) error {
	if free == 0 || need <= free+has {
		return nil
	}
	return &MemoryError{need, free + has}
}

// CheckParts refuses parts of layers that a model does not have.
func (c Config) CheckParts(m *models.Model) error {
	last := m.Config.NumHiddenLayers - 1
	for _, p := range c.CheckpointParts {
		if n, _, err := nn.ParseLayerPart(p); err != nil || n > last {
			return fmt.Errorf("trainer.Config.CheckpointParts has %q, and the model's last layer is %s", p, nn.LayerPart(last, ""))
		}
	}
	return nil
}

// checkWeights refuses a model that has not the parts that are named, or whose weights, with what training keeps beside each, are
// more than the memory that is free, before they are read.
func (c Config) checkWeights(m *models.Model) error {
	if err := c.CheckParts(m); err != nil || c.Force {
		return err
	}
	var need int64
	for _, p := range m.Params() {
		need += p.Bytes()
	}
	var gradients, largest int64
	for _, p := range m.Trainable() {
		n := 4 * int64(p.Tensor.Elems())
		gradients, largest = gradients+n, max(largest, n)
	}
	if c.Optimizer.UpdateInBackward {
		gradients = largest
	}
	need += gradients
	need += c.OptimConfig().Bytes(forecast.Params(m))
	return enough(need, memory.Available(), 0)
}

// Forecast returns what to forecast of the run, with held-out rows or without, and kernels in so many processes. How much
// memory is free, which kernels keep packed weights in, it leaves open.
func (c Config) Forecast(held bool, processes int) forecast.Run {
	return forecast.Run{Optim: c.OptimConfig(), UpdateInBackward: c.Optimizer.UpdateInBackward, Batch: c.Batch, Seq: c.Seq,
		Accumulate: c.Accumulate, GradientCheckpointing: c.GradientCheckpointing, CheckpointParts: c.CheckpointParts,
		Evaluates: held && !c.Checkpoints.NoEval, Predicts: c.Metric.Name == metric.TokenAccuracy, Answers: c.Answers(),
		Refers: c.refers(), Compares: c.CheckEvery > 0,
		KeepsBest: c.Checkpoints.LoadBest && !c.Checkpoints.saves() && held && !c.Checkpoints.NoEval,
		Processes: processes, Threads: c.Threads, MaxKept: c.MaxKept}
}

// refers reports whether a run has to ask the reference, before its first step. A file of what it gave before is taken
// to have all that is asked for.
func (c Config) refers() bool {
	if !c.Preference.NeedsReference() {
		return false
	}
	_, err := os.Stat(c.Preference.RefCache)
	return err != nil
}

// checkMemory refuses a run that the free memory cannot hold. The model is in memory
// already, and its kernels are where the run has them.
func (r *session) checkMemory() error {
	j, c := r.job, r.job.Config
	if c.Force && j.World.Size() == 1 { // other ranks may not be forced
		return nil
	}
	run := c.Forecast(rowsIn(j.Eval) > 0, r.sum.Report.Processes())
	run.Batch, run.Accumulate, run.Lengths = r.batch, r.accumulate, r.lengths
	if j.World.Size() == 1 { // of the batches of several ranks, each has a part
		var err error
		if run.Counted, err = j.Counted(r.loader); err != nil {
			return err
		}
	}
	f, err := forecast.New(j.Model, j.Memory, run)
	if err != nil {
		return err
	}
	free, err := fairly(j.World, memory.Available())
	if err != nil {
		return err
	}
	need := f.Bytes()
	if c.Ranks.Reduce.Shard {
		state := c.OptimConfig().Bytes(forecast.Params(j.Model))
		need -= forecast.Elsewhere(state, j.World.Size(), r.leads() && c.Checkpoints.saves())
	}
	err = enough(need, free, f.Weights())
	if c.Force {
		err = nil
	}
	return agree(j.World, err)
}
