package trainer

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// diskNeed is what a run will write: the model, and a checkpoint, in bytes. Small files
// do not count.
type diskNeed struct{ model, checkpoint int64 }

func needOf(m *models.Model, o optim.Config) diskNeed {
	n := diskNeed{checkpoint: o.Bytes(forecast.Params(m))}
	if m.Adapter != nil {
		n.model = m.Adapter.Bytes()
		n.checkpoint += n.model
		return n
	}
	for _, p := range m.Params() {
		for _, e := range p.Entries {
			elems, stored := e.Shape.Elems(), p.Tensor.DType
			if stored == core.Float32 {
				stored = m.Stored(e.Name)
			}
			n.model += int64(stored.Bytes(elems))
			if !p.Frozen && stored != p.Tensor.DType { // see writeMaster
				n.checkpoint += int64(core.Float32.Bytes(elems))
			}
		}
	}
	n.checkpoint += n.model
	return n
}

// check compares the need with the free bytes of the file system. What cannot be written
// at all is an error; what may not be is a warning.
func (n diskNeed) check(c Config, steps int, free uint64) (warning, err error) {
	least, most := n.model, n.model
	if every := c.Checkpoints.SaveEvery; every > 0 {
		// The best besides the newest, and the next is written before the oldest goes.
		count := c.Checkpoints.Keep + 2
		if all := steps/every + 2; c.Checkpoints.Keep == 0 || all < count {
			count = all
		}
		least, most = n.model+n.checkpoint, n.model+int64(count)*n.checkpoint
	}
	switch {
	case uint64(least) > free:
		return nil, fmt.Errorf("trainer: the disk of %s has %s free, but the model takes %s%s: make room, or choose another trainer.Config.Out",
			c.Out, amount.Bytes(free), amount.Bytes(n.model), n.perCheckpoint(c))
	case uint64(most) > free:
		return fmt.Errorf("the disk of %s has %s free, but the run may need %s (the model takes %s%s): make room, or lower trainer.Checkpoints.Keep",
			c.Out, amount.Bytes(free), amount.Bytes(most), amount.Bytes(n.model), n.perCheckpoint(c)), nil
	}
	return nil, nil
}

func (n diskNeed) perCheckpoint(c Config) string {
	if c.Checkpoints.SaveEvery == 0 {
		return ""
	}
	return ", a checkpoint " + amount.Bytes(n.checkpoint)
}

// checkDisk fails early where the end of the run would fail.
func (j *Job) checkDisk(steps int) error {
	if j.Config.Out == "" {
		return nil
	}
	free, known := checkpoint.Free(j.Config.Out)
	if !known {
		return nil
	}
	warning, err := needOf(j.Model, j.Config.OptimConfig()).check(j.Config, steps, free)
	if warning != nil {
		call(j.Hooks.OnWarning, warning)
	}
	return err
}
