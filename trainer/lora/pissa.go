package lora

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/nn"
)

// PiSSA, as Config.Init, has A and B begin with the largest singular values of a weight and their vectors, and takes
// scale B A off the weight, which then stays as it is. See Meng et al., "PiSSA: Principal Singular Values and Singular
// Vectors Adaptation of Large Language Models" (2024).
const PiSSA = "pissa"

// Decomposition takes weights apart while they are read, for adapters that begin with the principal part of each.
type Decomposition struct {
	config Config
	parts  map[string]*part // by the name of the weight
}

// part is what an adapter begins with.
type part struct {
	out, in int
	a, b    []float32 // nil until the weight was read
}

// NewDecomposition returns that of the weights that New would put adapters on; nil if these begin in another way.
func NewDecomposition(body *nn.Body, c Config) (*Decomposition, error) {
	if c.Init != PiSSA {
		return nil, nil
	}
	c = c.complete()
	targets, err := c.choose(body.Targets())
	if err != nil {
		return nil, fmt.Errorf("lora: %w", err)
	}
	d := &Decomposition{c, map[string]*part{}}
	if err := c.decomposes(targets); err != nil {
		return nil, fmt.Errorf("lora: %w", err)
	}
	for _, t := range targets {
		for _, module := range t.Modules {
			d.parts[module+".weight"] = &part{out: t.Out, in: t.In}
		}
	}
	if c.Start == "" {
		return d, nil
	}
	return d, d.read(c.Start)
}

// decomposes reports a target that has fewer singular values than adapters that begin with them have a rank.
func (c Config) decomposes(targets []nn.Target) error {
	for _, t := range targets {
		if most := min(t.Out, t.In); c.Init == PiSSA && c.Rank > most {
			return fmt.Errorf("lora.Config.Rank is %d, and %s has no more than %d singular values, with which its "+
				"adapter would begin: give a smaller rank, or name other layers in lora.Config.Targets", c.Rank, t.Name, most)
		}
	}
	return nil
}

// read takes the parts from a folder that Adapter.Named has filled, so that a run goes on from the same.
func (d *Decomposition) read(dir string) (err error) {
	defer inFolder(&err, dir)
	f, err := checkpoint.Open(filepath.Join(dir, WeightsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	rank, room := d.config.Rank, checkpoint.Room{}
	for weight, p := range d.parts {
		module := weight[:len(weight)-len(".weight")]
		both := nn.Target{Name: module, Modules: []string{module}, In: p.in, Out: p.out}.Entries(2 * rank)
		var halves [2][]float32
		for i, e := range both {
			if err := check(f, e); err != nil {
				return fmt.Errorf("%s: %w", WeightsFile, err)
			}
			t, err := f.TensorIn(&room, prefix+e.Name)
			if err != nil {
				return err
			}
			halves[i] = make([]float32, t.Elems())
			t.Load(halves[i], 0)
		}
		_, p.a = parted(halves[0], rank, p.in)
		p.b = make([]float32, p.out*rank)
		for n := range p.out {
			simd.Scale(p.b[n*rank:][:rank], halves[1][(2*n+1)*rank:][:rank], -1)
		}
	}
	return nil
}

// parted cuts a matrix of 2 rows rows into halves.
func parted(x []float32, rows, cols int) (first, second []float32) {
	return x[:rows*cols], x[rows*cols:]
}

// Rest returns what is left of a weight without the principal part that its adapter begins with: a tensor of
// its own in float32. Of any other tensor it is the tensor.
func (d *Decomposition) Rest(name string, weight core.Tensor) (core.Tensor, error) {
	if d == nil || d.parts[name] == nil {
		return weight, nil
	}
	p, rank, scale := d.parts[name], d.config.Rank, d.config.adaptation().Scale
	if !weight.Shape.Equal(core.Shape{p.out, p.in}) {
		return weight, nil // which whoever reads it says
	}
	w := make([]float32, p.out*p.in)
	weight.Load(w, 0)
	if p.a == nil {
		if p.b, p.a = principal(w, p.out, p.in, rank, scale); p.a == nil {
			return core.Tensor{}, fmt.Errorf("%s has no singular values", name)
		}
	}
	scaled := make([]float32, len(p.b))
	simd.Scale(scaled, p.b, -float32(scale))
	simd.Multiply(simd.Product{M: p.out, N: p.in, K: rank, A: simd.Matrix{Data: scaled, Stride: rank},
		B: simd.Matrix{Data: p.a, Stride: p.in}, C: w, StrideC: p.in, Accumulate: true})
	return core.FromFloat32(w, p.out, p.in), nil
}

// BeginWith fills fresh adapters with the parts that were taken off their weights, all of which must have been read.
func (a *Adapter) BeginWith(d *Decomposition) error {
	for i, t := range a.targets {
		for e, module := range t.Modules {
			p := d.parts[module+".weight"]
			if p == nil || p.a == nil {
				return fmt.Errorf("lora: no weight of %s was read", module)
			}
			A, B := a.a[i], a.b[i]
			A.Set(A.Entries[e], core.FromFloat32(p.a, d.config.Rank, p.in))
			B.Set(B.Entries[e], core.FromFloat32(p.b, p.out, d.config.Rank))
		}
	}
	a.begun = a.copied()
	return nil
}

// BegunBytes returns what an adapter that begins with a part of the weights keeps of that, and, while it is saved,
// takes for the adapter of twice the rank that takes it off again; 0 of any other, or none.
func (a *Adapter) BegunBytes() (n int64) {
	if a == nil || a.config.Init != PiSSA {
		return 0
	}
	for _, p := range slices.Concat(a.a, a.b) {
		n += 3 * p.Bytes()
	}
	return n
}

// copied returns what A and B are, those of A first.
func (a *Adapter) copied() (all [][]float32) {
	for _, p := range slices.Concat(a.a, a.b) {
		all = append(all, slices.Clone(p.Tensor.Float32s()))
	}
	return all
}

// converted is the configuration of the adapter that is saved, which is for the weights as their files have them:
// beside what was trained it takes off what it began with, so that it has twice the rank.
func (c Config) converted() Config {
	if c.Init != PiSSA {
		return c
	}
	c.Init, c.Rank = "", 2*c.Rank
	if c.RSLoRA {
		c.Alpha *= math.Sqrt2
	} else {
		c.Alpha *= 2
	}
	return c
}

// errNotBegun is of adapters whose weights were never read.
var errNotBegun = errors.New("lora: the adapters have not begun: their weights were not read")

// convertedTensors are those of the adapter that is saved: [A, A0] and [B, -B0], as PEFT converts them.
func (a *Adapter) convertedTensors() ([]checkpoint.Named, error) {
	if a.begun == nil {
		return nil, errNotBegun
	}
	var all []checkpoint.Named
	rank := a.config.Rank
	for i, p := range slices.Concat(a.a, a.b) {
		for _, e := range p.Entries {
			now, then := e.View(p.Tensor).Float32s(), a.begun[i][e.Offset:][:e.Shape.Elems()]
			rows, cols := e.Shape[0], e.Shape[1]
			t := core.NewTensor(core.Float32, 2*rank, cols)
			if i >= len(a.a) {
				t = core.NewTensor(core.Float32, rows, 2*rank)
			}
			to := t.Float32s()
			if i < len(a.a) {
				copy(to[copy(to, now):], then)
			} else {
				for n := range rows {
					copy(to[2*n*rank:], now[n*rank:][:rank])
					simd.Scale(to[(2*n+1)*rank:][:rank], then[n*rank:][:rank], -1)
				}
			}
			all = append(all, checkpoint.Named{Name: prefix + e.Name, Tensor: t})
		}
	}
	return all, nil
}

// fillConverted takes over what convertedTensors gave, and removes its names from left.
func (a *Adapter) fillConverted(f *checkpoint.File, left map[string]bool) error {
	same, err := a.convertedTensors() // of which the halves that are not trained must be the file's
	if err != nil {
		return err
	}
	next, room := 0, checkpoint.Room{}
	for i, p := range slices.Concat(a.a, a.b) {
		for _, e := range p.Entries {
			want := same[next]
			next++
			if err := check(f, nn.Entry{Name: e.Name, Shape: want.Tensor.Shape}); err != nil {
				return err
			}
			t, err := f.TensorIn(&room, want.Name)
			if err == nil {
				err = checkpoint.CheckFinite(want.Name, t)
			}
			if err != nil {
				return err
			}
			delete(left, want.Name)
			got, rows, cols := make([]float32, t.Elems()), e.Shape[0], e.Shape[1]
			t.Load(got, 0)
			if i >= len(a.a) { // the halves of each row, not of all rows
				rows, cols = 1, a.config.Rank
			}
			to := e.View(p.Tensor).Float32s()
			for k := 0; k < len(to); k += rows * cols {
				now, then := parted(got[2*k:][:2*rows*cols], rows, cols)
				if _, mine := parted(want.Tensor.Float32s()[2*k:][:2*rows*cols], rows, cols); !slices.Equal(then, mine) {
					return fmt.Errorf("%s began with other numbers than the adapter to fill: load the model with this "+
						"folder as lora.Config.Start", want.Name)
				}
				copy(to[k:], now)
			}
			p.Written()
		}
	}
	return nil
}
