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
	optimizerFile = "optimizer.safetensors" // what the optimizer remembers, by the names of the model's tensors
	masterFile    = "master.safetensors"    // float32 values of the tensors that the model's file has in half precision
)

// writeMaster writes what half precision would lose. Training goes on from these values. Adapters lose nothing: their
// files, with the modules that are trained beside them, are float32.
func writeMaster(f *checkpoint.Folder, m *models.Model) error {
	if m.Adapter != nil {
		return nil
	}
	var tensors []checkpoint.Named
	for _, p := range m.Trainable() {
		for _, e := range p.Entries {
			if p.Tensor.DType == core.Float32 && m.Stored(e.Name) != core.Float32 {
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
		if err := fill(p, in); err != nil {
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

// fill reads the entries of a parameter.
func fill(p *nn.Param, in func(name string) source) error {
	for _, e := range p.Entries {
		if err := read(in(e.Name), e.Name, e.View(p.Tensor)); err != nil {
			return err
		}
	}
	return nil
}

// read reads one tensor, which must be of the type and shape of into.
func read(from source, name string, into core.Tensor) error {
	switch dtype, shape, ok := from.Lookup(name); {
	case !ok:
		return fmt.Errorf("it lacks the tensor %s", name)
	case dtype != into.DType || !shape.Equal(into.Shape):
		return fmt.Errorf("%s is %s %v, want %s %v", name, dtype, shape, into.DType, into.Shape)
	}
	t, err := from.TensorIn(checkpoint.RoomOf(into), name)
	if err == nil {
		err = checkpoint.CheckFinite(name, t)
	}
	return err
}

// writeOptimizer writes the optimizer's state.
func (e *Engine) writeOptimizer(f *checkpoint.Folder, state []checkpoint.Named) error {
	return f.WriteTensors(optimizerFile, state, map[string]string{"step": strconv.Itoa(e.opt.T())})
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
	if err := e.readState(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	e.opt.SetT(step)
	return nil
}
