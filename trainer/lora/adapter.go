package lora

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/nn"
)

// Adapter is all that adapters have added to a model.
type Adapter struct {
	config  Config
	base    string // the model that it is for, as base_model_name_or_path
	body    *nn.Body
	targets []nn.Target
	each    []Config    // of each target, with its own rank and alpha
	a, b    []*nn.Param // of each target
	m       []*nn.Param // of each target, with DoRA; none without
	whole   []*nn.Param // trained as they are

	begun [][]float32 // with PiSSA, what A and B of each target began with, those of A first
}

// New puts fresh adapters on a model, which then gives what it gave before: A is uniform
// in +-1/sqrt(in), as PEFT has it (Kaiming's initialisation with a = sqrt(5)), B is zero.
// base is the name of the model.
func New(body *nn.Body, c Config, base string, seed uint64) (*Adapter, error) {
	c = c.complete()
	targets, err := c.choose(body.Targets())
	if err == nil {
		err = c.decomposes(targets) // also of a model without weights
	}
	if err != nil {
		return nil, fmt.Errorf("lora: %w", err)
	}
	a, err := attach(body, body.Adapt, c, base, targets)
	if err != nil {
		return nil, fmt.Errorf("lora: %w", err)
	}
	rng := rand.New(rand.NewPCG(seed, 0x6c6f7261))
	for i, t := range a.targets {
		bound := 1 / math.Sqrt(float64(t.In))
		v := a.a[i].Tensor.Float32s()
		for k := range v {
			v[k] = float32((2*rng.Float64() - 1) * bound)
		}
	}
	return a, nil
}

// Begin gives the magnitudes of fresh adapters, if they have any, the norms of the weights, which must be there.
func (a *Adapter) Begin() {
	for i, m := range a.m {
		a.targets[i].RowNorms(m.Tensor.Float32s())
		m.Written()
	}
}

// params are those of all adapters.
func (a *Adapter) params() []*nn.Param { return slices.Concat(a.a, a.b, a.m) }

// adapt puts an adapter on a target.
type adapt func(nn.Target, nn.Adaptation) (A, B *nn.Param, err error)

func attach(body *nn.Body, put adapt, c Config, base string, targets []nn.Target) (*Adapter, error) {
	each, err := c.each(targets)
	if err != nil {
		return nil, err
	}
	a := &Adapter{config: c, base: base, body: body, targets: targets, each: each}
	for i, t := range a.targets {
		A, B, err := put(t, each[i].adaptation())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		a.a, a.b = append(a.a, A), append(a.b, B)
		if !c.DoRA {
			continue
		}
		M, err := body.Decompose(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		a.m = append(a.m, M)
	}
	return a, a.keep()
}

// Config returns the configuration, with its defaults filled in.
func (a *Adapter) Config() Config { return a.config }

// prefix is what PEFT puts before the names of a model's modules.
const prefix = "base_model.model."

// Named returns the tensors of the adapters under PEFT's names. A value that is not finite
// is an error that names the tensor.
func (a *Adapter) Named() ([]checkpoint.Named, error) {
	out, err := a.matrices()
	if err != nil {
		return nil, err
	}
	out = append(out, a.wholeTensors()...)
	for _, t := range out {
		if _, bad := checkpoint.NonFinite(t.Tensor); bad {
			return nil, fmt.Errorf("%s has values that are not finite: the training diverged; lower the learning rate",
				strings.TrimPrefix(t.Name, prefix))
		}
	}
	return out, nil
}

// Bytes returns what the tensors of Named take.
func (a *Adapter) Bytes() (n int64) {
	for _, p := range a.params() {
		n += p.Bytes()
	}
	if a.config.Init == PiSSA {
		n *= 2 // see convertedTensors
	}
	for _, t := range a.wholeTensors() {
		n += int64(t.Bytes())
	}
	return n
}

// matrices are the tensors of the adapters that are saved.
func (a *Adapter) matrices() (out []checkpoint.Named, err error) {
	if a.config.Init == PiSSA {
		return a.convertedTensors()
	}
	for _, p := range a.params() {
		for _, e := range p.Entries {
			out = append(out, checkpoint.Named{Name: prefix + e.Name, Tensor: e.View(p.Tensor)})
		}
	}
	return out, nil
}

// Merge adds scale * B A to every weight W that has an adapter, with float32 arithmetic,
// and makes B zero. With DoRA, rows then get their magnitudes. W keeps its dtype. A weight in int8
// or NF4, or one whose dtype cannot hold the sum, is an error that names it; the model must not be
// used after an error.
func (a *Adapter) Merge() error { return a.merge(nil) }

// MergeQuantised is Merge for weights of which some are quantised: those are quantised again, and how much that takes
// off the sums is what it returns.
func (a *Adapter) MergeQuantised() (r Rounding, err error) { return r, a.merge(&r) }

func (a *Adapter) merge(r *Rounding) error {
	weights := map[string]weight{}
	for _, p := range a.body.Params() {
		for _, e := range p.Entries {
			weights[e.Name] = weight{p, e}
		}
	}
	for i, t := range a.targets {
		A, B, scale := a.a[i], a.b[i], float32(a.each[i].adaptation().Scale)
		for e, module := range t.Modules {
			name := module + ".weight"
			var magnitudes []float32
			if a.m != nil {
				magnitudes = a.m[i].Tensor.Float32s()
			}
			b, a := B.Entries[e].View(B.Tensor), A.Entries[e].View(A.Tensor)
			if err := weights[name].add(scale, b, a, magnitudes, r); err != nil {
				return fmt.Errorf("lora: merge %s: %w", name, err)
			}
		}
		clear(B.Tensor.Data)
		B.Written()
	}
	return nil
}

// Off has the adapters change nothing, until the function that it returns is called.
func (a *Adapter) Off() (on func()) {
	changed := slices.Concat(a.b, a.m)
	if a.begun != nil {
		changed = slices.Concat(a.a, a.b)
	}
	was := make([][]float32, len(changed))
	for i, p := range changed {
		was[i] = slices.Clone(p.Tensor.Float32s())
	}
	for i, p := range changed {
		if a.begun != nil { // which the weights lack
			copy(p.Tensor.Float32s(), a.begun[i])
		} else {
			clear(p.Tensor.Data)
		}
		p.Written()
	}
	a.Begin() // the magnitudes of the weights alone
	return func() {
		for i, p := range changed {
			copy(p.Tensor.Float32s(), was[i])
			p.Written()
		}
	}
}

// weight is a matrix [out, in] of the model.
type weight struct {
	param *nn.Param
	entry nn.Entry
}

// add adds scale * b a: b [out, r], a [r, in]. Rows of the sum then get magnitudes, if there are any. What is
// quantised is counted by rounding, and refused without.
func (w weight) add(scale float32, b, a core.Tensor, magnitudes []float32, rounding *Rounding) error {
	quantised := false
	switch dtype := w.param.Tensor.DType; {
	case rounding != nil:
		quantised = dtype == core.Int8 || dtype == core.NF4
	case dtype == core.Int8:
		return fmt.Errorf("it is int8, which would round the sum: take the model that was not quantised, without " +
			"lora.Config.BaseInt8")
	case dtype == core.NF4:
		return fmt.Errorf("it is nf4, which would round the sum: take the model that was not quantised, without " +
			"lora.Config.BaseNF4")
	}
	out, in, r := b.Shape[0], a.Shape[1], a.Shape[0]
	sum := make([]float32, out*in)
	w.load(sum)
	scaled := make([]float32, out*r)
	simd.Scale(scaled, b.Float32s(), scale)
	simd.Multiply(simd.Product{M: out, N: in, K: r, A: simd.Matrix{Data: scaled, Stride: r},
		B: simd.Matrix{Data: a.Float32s(), Stride: in}, C: sum, StrideC: in, Accumulate: true})
	for n, m := range magnitudes {
		row := sum[n*in:][:in]
		simd.Scale(row, row, nn.Gain(m, float32(math.Sqrt(simd.SumSquares(row)))))
	}
	exact := sum
	w.param.Set(w.entry, core.FromFloat32(sum, out, in))
	if quantised {
		sum = make([]float32, out*in)
	}
	w.load(sum) // as the weight's dtype has rounded it
	if quantised {
		rounding.add(exact, sum)
	}
	if _, bad := checkpoint.NonFinite(core.FromFloat32(sum, out, in)); bad {
		return fmt.Errorf("the sum is more than %s can hold", w.param.Tensor.DType)
	}
	return nil
}

// load widens the matrix.
func (w weight) load(dst []float32) {
	in := w.entry.Shape[len(w.entry.Shape)-1]
	for at := 0; at < len(dst); at += in { // int8 has a scale for each row
		w.param.Load(dst[at:at+in], w.entry.Offset+at)
	}
}

// lastNames returns the last elements of the modules' paths, each once, sorted.
func lastNames(targets []nn.Target) []string {
	var names []string
	for _, t := range targets {
		names = append(names, t.Name[strings.LastIndexByte(t.Name, '.')+1:])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
