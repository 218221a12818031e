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
	for _, p := range m.Params() {
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

// moments are the optimizer's state in whole, one slice for each parameter; see optim.State.
type moments struct{ m, v [][]float32 }

// moments returns those of all ranks, or none to a rank that has no use for them. All ranks call it.
func (e *Engine) moments() (moments, error) {
	state := e.opt.State()
	if !e.ranks.shards() {
		return moments{state.M, state.V}, nil
	}
	var all moments
	for _, of := range []struct {
		own   [][]float32
		whole *[][]float32
	}{{state.M, &all.m}, {state.V, &all.v}} {
		if e.cfg.World.Rank() == 0 {
			for _, p := range e.model.Trainable() {
				*of.whole = append(*of.whole, make([]float32, p.Tensor.Elems()))
			}
		}
		if err := e.ranks.reducer.Collect(of.own, *of.whole); err != nil {
			return moments{}, err
		}
	}
	return all, nil
}

// writeOptimizer writes the optimizer's state.
func (e *Engine) writeOptimizer(f *checkpoint.Folder, all moments) error {
	var tensors []checkpoint.Named
	for i, p := range e.model.Trainable() {
		first, second := core.FromFloat32(all.m[i], p.Tensor.Shape...), core.FromFloat32(all.v[i], p.Tensor.Shape...)
		for _, entry := range p.Entries {
			tensors = append(tensors, checkpoint.Named{Name: firstMoment + entry.Name, Tensor: entry.View(first)},
				checkpoint.Named{Name: secondMoment + entry.Name, Tensor: entry.View(second)})
		}
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
	state := e.opt.State()
	for i, p := range e.model.Trainable() {
		for prefix, own := range map[string][][]float32{firstMoment: state.M, secondMoment: state.V} {
			values := e.ranks.room(own, i, p)
			if err := fill(p, values, prefix, in); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			e.ranks.keep(own, i, values)
		}
	}
	state.T = step
	return e.opt.SetState(state) // the moments are in place; this sets the count of steps
}
