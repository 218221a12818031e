// Package parity compares a model with reference outputs computed by somebody else's
// code: logits, loss, the hidden state after every layer, the gradient of every
// parameter, and a curve of AdamW steps. docs/parity.md describes the folder's format.
package parity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// Limits are the largest differences that pass.
type Limits struct {
	Loss   float64 `json:"loss"`   // absolute
	Logits float64 `json:"logits"` // absolute
	Hidden float64 `json:"hidden"` // relative to the tensor's largest element
	Grad   float64 `json:"grad"`   // likewise, each tensor
	Curve  float64 `json:"curve"`  // absolute, every step's loss
}

// DefaultLimits are 5 to 10 times what torch in float32 differs from itself in float64.
// Angles of a rotary embedding are larger and so less exact at high positions: five
// times that above position 100.
func DefaultLimits(maxPosition int) Limits {
	l := Limits{Loss: 5e-6, Logits: 5e-5, Hidden: 1e-5, Grad: 3e-5, Curve: 5e-5}
	if maxPosition > 100 {
		l = Limits{Loss: 5 * l.Loss, Logits: 5 * l.Logits, Hidden: 5 * l.Hidden, Grad: 5 * l.Grad, Curve: 5 * l.Curve}
	}
	return l
}

// Result is the outcome of one comparison.
type Result struct {
	Case            string   `json:"case"`
	Kernels         string   `json:"kernels"`
	Pass            bool     `json:"pass"`
	LossAbs         float64  `json:"loss_abs"`
	LogitsAbs       float64  `json:"logits_abs"`
	LogitsRel       float64  `json:"logits_rel"`
	HiddenRel       float64  `json:"hidden_rel"`
	HiddenWorst     string   `json:"hidden_worst_tensor"`
	GradWorstRel    float64  `json:"grad_worst_rel"`
	GradWorstTensor string   `json:"grad_worst_tensor"`
	GradsCompared   int      `json:"grads_compared"`
	GradsMissing    []string `json:"grads_missing"`
	CurveLossMaxAbs float64  `json:"curve_loss_max_abs"`
	CurveSteps      int      `json:"curve_steps"`
	// GradWorstRel of the reference in float32; 0 if it is not recorded
	GradReference  float64        `json:"grad_reference_rel"`
	CurveReference float64        `json:"curve_reference_abs"` // likewise CurveLossMaxAbs
	KernelsApplied map[string]int `json:"kernels_applied"`
	Limits         Limits         `json:"limits"`
	Failures       []string       `json:"failures,omitempty"`
}

// Options say how to run the comparison.
type Options struct {
	Kernels string // a selection, as --kernels takes it; empty for none
	// Registry may be nil when Kernels is none.
	Registry *core.Registry
	Measure  measure.Options // how auto measures the kernels
	Memory   core.Memory
	Limits   *Limits // nil for DefaultLimits
}

// Run compares the model in dir with the reference beside it. Differences are in the
// result; the error is for what could not be compared at all.
func Run(ctx context.Context, dir string, o Options) (*Result, error) {
	ref, err := checkpoint.Open(filepath.Join(dir, "golden_f64.safetensors"))
	if err != nil {
		return nil, fmt.Errorf("parity: %w", err)
	}
	defer ref.Close()
	inputs, err := checkpoint.Open(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		return nil, fmt.Errorf("parity: %w", err)
	}
	defer inputs.Close()
	batch, err := readBatch(inputs, -1)
	if err != nil {
		return nil, fmt.Errorf("parity: %s: %w", dir, err)
	}
	curve, err := readCurve(dir)
	if err != nil {
		return nil, err
	}
	m, err := models.Load(dir, o.Memory)
	if err != nil {
		return nil, err
	}
	defer m.Free()
	c := &comparison{ref: ref, single: inputs, model: m, mem: o.Memory, curve: curve,
		maxPosition: maxPosition(append(curve.batches, batch))}
	c.res = Result{Case: filepath.Base(filepath.Clean(dir)), Kernels: cmp.Or(o.Kernels, "none"),
		KernelsApplied: map[string]int{}, GradsMissing: []string{}}
	if o.Registry != nil {
		run := measure.Run{Memory: o.Memory, Batch: batch.B, Seq: batch.S, MaxPosition: c.maxPosition + 1}
		plan, err := measure.Plan(ctx, m, o.Registry, c.res.Kernels, run, o.Measure)
		if err != nil {
			return nil, err
		}
		report, err := plan.Apply()
		if err != nil {
			return nil, err
		}
		c.res.KernelsApplied = report.Applied()
	}
	if c.res.Limits = DefaultLimits(c.maxPosition); o.Limits != nil {
		c.res.Limits = *o.Limits
	}
	if err := c.compareBatch(ctx, batch); err != nil {
		return nil, fmt.Errorf("parity: %s: %w", dir, err)
	}
	if err := c.replay(ctx); err != nil {
		return nil, fmt.Errorf("parity: %s: %w", dir, err)
	}
	c.judge()
	return &c.res, nil
}

type comparison struct {
	ref, single *checkpoint.File // the reference in float64; the inputs, and perhaps the reference in float32
	model       *models.Model
	mem         core.Memory
	curve       *curve
	maxPosition int
	res         Result
}

// compareBatch runs one forward and backward pass and compares everything.
func (c *comparison) compareBatch(ctx context.Context, batch data.Batch) error {
	nc, err := nn.NewContext(c.mem, batch.B, batch.S, c.maxPosition+1)
	if err != nil {
		return err
	}
	out := c.model.Forward(nc)
	out.Logits.Keep()
	out.Embedded.Keep()
	out.Normed.Keep()
	for _, h := range out.Hidden {
		h.Keep()
	}
	p, err := c.model.Compile(nc, out.Loss, false)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Batch.Fill(batch, batch.Targets()); err != nil {
		return err
	}
	loss, err := p.Forward(ctx)
	if err != nil {
		return err
	}
	if err := p.Backward(ctx); err != nil {
		return err
	}
	want, err := c.reference("loss")
	if err != nil {
		return err
	}
	c.res.LossAbs = math.Abs(loss - want[0])
	if want, err = c.reference("logits"); err != nil {
		return err
	}
	c.res.LogitsAbs, c.res.LogitsRel = difference(p.Tensor(out.Logits).Float32s(), want)
	hidden := map[string]core.Tensor{"hidden.embed": p.Tensor(out.Embedded), "hidden.norm": p.Tensor(out.Normed)}
	for i, h := range out.Hidden {
		hidden[fmt.Sprintf("hidden.layer.%d", i)] = p.Tensor(h)
	}
	for name, t := range hidden {
		if want, err = c.reference(name); err != nil {
			return err
		}
		if _, rel := difference(t.Float32s(), want); worse(rel, c.res.HiddenRel) {
			c.res.HiddenRel, c.res.HiddenWorst = rel, name
		}
	}
	return c.compareGradients(p)
}

// compareGradients compares the gradient of every parameter. Missing are parameters that
// the reference does not have, and gradients of the reference that no parameter has.
func (c *comparison) compareGradients(p *nn.Compiled) error {
	found := map[string]bool{}
	for _, param := range c.model.Params() {
		grad := param.Tensor
		grad.Data = core.FromFloat32(p.Gradient(param)).Data
		for _, e := range param.Entries {
			if !c.has("grad." + e.Name) {
				c.res.GradsMissing = append(c.res.GradsMissing, e.Name)
				continue
			}
			want, err := c.reference("grad." + e.Name)
			if err != nil {
				return err
			}
			c.res.GradsCompared++
			found["grad."+e.Name] = true
			if dtype, _, _ := c.single.Lookup("grad." + e.Name); dtype == core.Float32 {
				own, err := c.single.Tensor("grad." + e.Name)
				if err != nil {
					return err
				}
				_, rel := difference(own.Float32s(), want)
				c.res.GradReference = max(c.res.GradReference, rel)
			}
			if _, rel := difference(e.View(grad).Float32s(), want); worse(rel, c.res.GradWorstRel) {
				c.res.GradWorstRel, c.res.GradWorstTensor = rel, e.Name
			}
		}
	}
	for _, name := range c.ref.Names() {
		if param, ok := strings.CutPrefix(name, "grad."); ok && !found[name] {
			c.res.GradsMissing = append(c.res.GradsMissing, param)
		}
	}
	return nil
}

// has reports whether the float64 reference has a tensor.
func (c *comparison) has(name string) bool {
	dtype, _, _ := c.ref.Lookup(name)
	return dtype == core.Float64
}

// reference returns a tensor of the float64 reference.
func (c *comparison) reference(name string) ([]float64, error) {
	if !c.has(name) {
		return nil, fmt.Errorf("golden_f64.safetensors has no float64 tensor %s", name)
	}
	t, err := c.ref.Tensor(name)
	if err != nil {
		return nil, err
	}
	return t.Float64s(), nil
}

// judge compares the numbers with the limits.
func (c *comparison) judge() {
	r, l := &c.res, c.res.Limits
	check := func(what string, got, limit float64) {
		if !(got <= limit) { // so that NaN fails
			r.Failures = append(r.Failures, fmt.Sprintf("%s differs by %.3g, limit %.3g", what, got, limit))
		}
	}
	check("loss", r.LossAbs, l.Loss)
	check("logits", r.LogitsAbs, l.Logits)
	check("hidden state "+r.HiddenWorst, r.HiddenRel, l.Hidden)
	check("gradient of "+r.GradWorstTensor, r.GradWorstRel, l.Grad)
	check("curve of losses", r.CurveLossMaxAbs, l.Curve)
	if len(r.GradsMissing) > 0 {
		r.Failures = append(r.Failures, fmt.Sprintf("%d gradients have no counterpart: %s", len(r.GradsMissing),
			strings.Join(r.GradsMissing, ", ")))
	}
	r.Pass = len(r.Failures) == 0
}

// difference returns max|a-b| and max|a-b| / max|b|; NaN wins.
func difference(a []float32, b []float64) (abs, rel float64) {
	if len(a) != len(b) {
		return math.NaN(), math.NaN()
	}
	scale := 0.0
	for i, want := range b {
		if d := math.Abs(float64(a[i]) - want); worse(d, abs) {
			abs = d
		}
		scale = max(scale, math.Abs(want))
	}
	if abs == 0 {
		return 0, 0
	}
	return abs, abs / scale
}

func worse(a, b float64) bool { return a > b || math.IsNaN(a) }

func maxPosition(batches []data.Batch) int {
	m := 0
	for _, b := range batches {
		for _, p := range b.Positions {
			m = max(m, int(p))
		}
	}
	return m
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("parity: %w", err)
	}
	if err := plainjson.Unmarshal(b, into); err != nil {
		return fmt.Errorf("parity: %s: %w", path, err)
	}
	return nil
}

var errNoTargets = errors.New("the batch has no targets")
