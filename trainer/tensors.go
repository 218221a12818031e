package trainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// The files of a checkpoint that a model folder does not have.
const (
	optimizerFile = "optimizer.safetensors" // the moments, by the names of the model's tensors
	masterFile    = "master.safetensors"    // float32 values of the tensors that the model's file has in half precision
)

// The names of the moments, as torch.optim.AdamW calls them.
const (
	firstMoment  = "exp_avg."
	secondMoment = "exp_avg_sq."
)

// writeMaster writes what half precision would lose. Training goes on from these values.
func writeMaster(f *checkpoint.Folder, m *models.Model) error {
	var tensors []checkpoint.Named
	for _, p := range m.Trainable() {
		for _, e := range p.Entries {
			if m.Stored(e.Name) != core.Float32 {
				tensors = append(tensors, checkpoint.Named{Name: e.Name, Tensor: e.View(p.Tensor)})
			}
		}
	}
	if tensors == nil {
		return nil
	}
	return f.WriteTensors(masterFile, tensors, nil)
}

// readWeights fills the model with the values that a checkpoint has.
func readWeights(m *models.Model, dir string) error {
	if m.Adapter != nil {
		return m.Adapter.Read(dir)
	}
	stored, err := checkpoint.OpenDir(dir)
	if err != nil {
		return err
	}
	defer stored.Close()
	in := func(name string) source { return stored }
	path := filepath.Join(dir, masterFile)
	if _, err := os.Stat(path); err == nil {
		master, err := checkpoint.Open(path)
		if err != nil {
			return err
		}
		defer master.Close()
		in = func(name string) source {
			if _, _, ok := master.Lookup(name); ok {
				return master
			}
			return stored
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, p := range m.Trainable() { // the rest is as it was loaded
		p.Written()
		if err := fill(p, p.Tensor, "", in); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// source is a file of tensors, or several.
type source interface {
	Lookup(name string) (core.DType, core.Shape, bool)
	TensorIn(room *checkpoint.Room, name string) (core.Tensor, error)
}

// fill reads the entries of a parameter, under their names after a prefix, into a tensor
// laid out like the parameter.
func fill(p *nn.Param, into core.Tensor, prefix string, in func(name string) source) error {
	for _, e := range p.Entries {
		name := prefix + e.Name
		switch dtype, shape, ok := in(name).Lookup(name); {
		case !ok:
			return fmt.Errorf("it lacks the tensor %s", name)
		case dtype != core.Float32 || !shape.Equal(e.Shape):
			return fmt.Errorf("%s is %s %v, want %s %v", name, dtype, shape, core.Float32, e.Shape)
		}
		t, err := in(name).TensorIn(checkpoint.RoomOf(e.View(into)), name)
		if err == nil {
			err = checkpoint.CheckFinite(name, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moments calls use for both moments of each parameter, laid out like it.
func (e *Engine) moments(use func(p *nn.Param, prefix string, values core.Tensor) error) error {
	state := e.opt.State()
	for i, p := range e.model.Trainable() {
		for _, m := range []struct {
			prefix string
			values []float32
		}{{firstMoment, state.M[i]}, {secondMoment, state.V[i]}} {
			t := core.FromFloat32(m.values, p.Tensor.Shape...)
			if err := use(p, m.prefix, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeOptimizer writes the optimizer's state.
func (e *Engine) writeOptimizer(f *checkpoint.Folder) error {
	var tensors []checkpoint.Named
	err := e.moments(func(p *nn.Param, prefix string, values core.Tensor) error {
		for _, entry := range p.Entries {
			tensors = append(tensors, checkpoint.Named{Name: prefix + entry.Name, Tensor: entry.View(values)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.WriteTensors(optimizerFile, tensors, map[string]string{"step": strconv.Itoa(e.opt.State().T)})
}

// readOptimizer takes over the state that was written after a step.
func (e *Engine) readOptimizer(path string, step int) error {
	f, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if got := f.Metadata()["step"]; got != strconv.Itoa(step) {
		return fmt.Errorf("%s is of step %q, want %d: the checkpoint is damaged", path, got, step)
	}
	in := func(string) source { return f }
	err = e.moments(func(p *nn.Param, prefix string, values core.Tensor) error { return fill(p, values, prefix, in) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	state := e.opt.State()
	state.T = step
	return e.opt.SetState(state) // the moments are in place; this sets the count of steps
}
