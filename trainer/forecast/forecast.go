// Package forecast says what a training run will need, before a weight is read: its
// memory, part by part, and the time of a step.
//
// The memory is not estimated from formulas: the model is built, in address space that
// nobody touches, its graphs are recorded, and their buffers are planned. Only what lies outside the graphs is
// estimated; see rest.
package forecast

import (
	"fmt"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
)

// Run is what a forecast is made for.
type Run struct {
	Batch, Seq            int   // rows of a batch, tokens of a row
	Lengths               []int // of rows of other graphs; see trainer.EngineConfig
	Counted               int   // tokens of a batch that count in the loss, at most; 0 for all
	Accumulate            int   // batches whose gradients make one step; 0 means 1
	GradientCheckpointing bool  // see trainer.EngineConfig
	CheckpointParts       []string
	Optim                 optim.Config
	UpdateInBackward      bool // see trainer.EngineConfig
	Evaluates             bool // held-out data are evaluated, by a second graph
	Predicts              bool // which tells the likeliest tokens, too; see trainer.NewPredictor
	Answers               int  // tokens that an answer may have with its question, where evaluations have them written
	Refers                bool // the graph of evaluations computes what a reference gives to answers, too
	Compares              bool // calls of kernels are compared with the plain forward
	KeepsBest             bool // the best weights so far lie in memory, not in a checkpoint
	Processes             int  // of plugins that have a site
	Threads               int  // of each process; 0 for as many as this one has
	// Free is the memory that is free, of which kernels keep packed weights, at most MaxKept bytes if that is
	// not 0; see Room. 0: nothing is known of it, and they are left out.
	Free, MaxKept int64
}

// Part is memory of one kind.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// KeptPart is the name of the part of Memory that kernels keep packed weights in, at most.
const KeptPart = "kept"

// Forecast is what a run will need.
type Forecast struct {
	Parameters int64  `json:"parameters"` // elements of the model
	Trainable  int64  `json:"trainable"`  // of these and of adapters, what is trained
	Memory     []Part `json:"memory"`
	Tokens     int    `json:"tokens"` // of a step

	steps      []core.Work   // what takes time in a step, by kind
	layers     map[int]layer // by number
	accumulate int
	completes  []autograd.Complete
}

// New builds the graphs of a run in mem and returns what they come to. The model must be
// patched as the run will patch it; its weights are not touched.
func New(m *models.Model, mem core.Memory, r Run) (*Forecast, error) {
	r.Accumulate = max(r.Accumulate, 1)
	f := &Forecast{Tokens: r.Batch * r.Seq * r.Accumulate}
	var weights int64
	for _, p := range m.Params() {
		f.Parameters += int64(p.Tensor.Elems())
		weights += p.Bytes()
	}
	f.Trainable = int64(m.Elems())
	train, err := size(m, mem, r, false)
	if err != nil {
		return nil, err
	}
	f.layers, f.completes, f.accumulate = byLayer(train.Between), train.Completes, r.Accumulate
	leaves, err := r.leaves(m, mem)
	if err != nil {
		return nil, err
	}
	gradients := int64(train.Gradients)
	activations := int64(train.Bytes) - gradients + leaves
	f.Memory = []Part{
		{"weights", weights},
		{"gradients", gradients},
		{"optimizer", r.Optim.Bytes(Params(m))},
		{"activations", activations},
	}
	if r.Evaluates || r.Refers {
		eval, err := size(m, mem, r, true)
		if err != nil {
			return nil, err
		}
		f.Memory = append(f.Memory, Part{"evaluation", int64(eval.Bytes) + leaves})
	}
	if r.Evaluates && r.Answers > 0 {
		f.Memory = append(f.Memory, Part{"answers", answers(m, r.Answers)})
	}
	f.Memory = append(f.Memory, rest(m, r)...)
	if r.Free > 0 {
		if _, kept := Keep(m, Room(r.Free, f.Bytes(), r.MaxKept)); kept > 0 {
			f.Memory = append(f.Memory, Part{KeptPart, kept})
		}
	}
	f.work(train.Stats, r.Accumulate, f.Memory[2].Bytes)
	return f, nil
}

// Evaluation returns what a model takes with the graph of its loss alone, for batches of so many rows of seq tokens.
func Evaluation(m *models.Model, mem core.Memory, rows, seq int) (bytes int64, err error) {
	s, err := size(m, mem, Run{Batch: rows, Seq: seq}, true)
	bytes = int64(s.Bytes)
	for _, p := range m.Params() {
		bytes += p.Bytes()
	}
	return bytes, err
}

// leaves is what the graphs for shorter rows take, which have all but their leaves in the memory of the longest.
func (r Run) leaves(m *models.Model, mem core.Memory) (bytes int64, err error) {
	of := map[int]int{}
	for _, n := range r.Lengths {
		if _, known := of[n]; !known {
			shorter := r
			shorter.Seq = n
			s, err := size(m, mem, shorter, true)
			if err != nil {
				return 0, err
			}
			of[n] = s.Leaves
		}
		bytes += int64(of[n])
	}
	return bytes, nil
}

func size(m *models.Model, mem core.Memory, r Run, forwardOnly bool) (autograd.Size, error) {
	c, err := nn.NewContext(mem, r.Batch, r.Seq, r.Seq)
	if err != nil {
		return autograd.Size{}, fmt.Errorf("forecast: %w", err)
	}
	c.Checkpoint, c.Training = r.GradientCheckpointing && !forwardOnly, !forwardOnly
	c.CheckpointParts = r.CheckpointParts
	if r.Accumulate > 1 {
		c.Sums = mem
	}
	if r.UpdateInBackward && !forwardOnly {
		c.Update = &autograd.Updates{Unit: Units(m, r.Optim)}
	}
	out := m.Forward(c)
	if r.Predicts && forwardOnly {
		nn.Likeliest(c, out.Logits)
	}
	s, err := m.Size(c, out.Loss, forwardOnly)
	if err != nil {
		return s, fmt.Errorf("forecast: %w", err)
	}
	return s, nil
}

// answers is what the keys and values of so many tokens take in each of the texts that metric.Writer has written at
// once. While a cache grows, a layer of it is there twice.
func answers(m *models.Model, tokens int) int64 {
	const together = 16 // see metric.Fit
	if most := m.Config.MaxPositionEmbeddings; most > 0 {
		tokens = min(tokens, most)
	}
	return int64(m.Decoder.CacheBytes()*(m.Config.NumHiddenLayers+1)) * int64(together*tokens)
}

// work adds up what a step has to do.
func (f *Forecast) work(kinds []autograd.Stat, accumulate int, moments int64) {
	for _, k := range kinds {
		for range accumulate {
			f.steps = append(f.steps, k.Work)
		}
	}
	// The norm of the gradients reads them; the optimizer reads and writes the weight and
	// what it remembers, and reads the gradient.
	f.steps = append(f.steps, f.update(moments))
}

func (f *Forecast) update(moments int64) core.Work {
	return core.Work{Bytes: 4*4*f.Trainable + 2*moments}
}

// Bytes returns the memory that the run will have in use, all parts together.
func (f *Forecast) Bytes() int64 {
	var n int64
	for _, p := range f.Memory {
		n += p.Bytes
	}
	return n
}

// Weights returns the part of Bytes that the model's own weights are.
func (f *Forecast) Weights() int64 { return f.Memory[0].Bytes }

// reached is the share of the ceilings that a whole step comes to at worst: matrix products
// alone reach 85 to 95%, what lies between them less. Of the worst that the machine gave while
// it was measured, steps with kernels came to 68 to 89% on five models of 14 to 600 million
// parameters, and to 56 to 65% on one of 5 million, whose calls are short; stories15M without
// kernels to 74%, and to 61% of a best moment.
const reached = 0.55

// Step returns the range in which the time of a step is likely to lie, on a machine that
// has now the one and now the other ceilings: from reaching the best to reaching as much of
// the worst as steps do.
func (f *Forecast) Step(best, worst ceiling.Ceilings) (from, to time.Duration) {
	for _, w := range f.steps {
		least, _ := best.Floor(float64(w.Bytes), w.Products)
		most, _ := worst.Floor(float64(w.Bytes), w.Products)
		from, to = from+least, to+most
	}
	return from, time.Duration(float64(to) / reached)
}

// Units returns what the ends of parts of a parameter's gradient must be multiples of to be of use to the
// optimizer, by the parameter's place among those that are trained; see autograd.Updates. Whole tensors of files
// always are.
func Units(m *models.Model, o optim.Config) func(param int) int {
	trained := m.Trainable()
	return func(param int) int {
		entries := trained[param].Entries
		unit, each := o.Unit(), entries[0].Shape.Elems()
		for _, e := range entries {
			if e.Shape.Elems() != each {
				return 0
			}
		}
		switch {
		case unit > 0 && each%unit == 0:
			return unit
		case len(entries) > 1:
			return each
		}
		return 0
	}
}

// Params returns the tensors that an optimizer of the model has to do with, by name and shape: those
// of files, since a packed matrix of experts is several of them.
func Params(m *models.Model) []optim.Param {
	var all []optim.Param
	for _, p := range m.Trainable() {
		for _, e := range p.Entries {
			all = append(all, optim.Param{Name: e.Name, Shape: e.Shape})
		}
	}
	return all
}
