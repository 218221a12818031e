package parity

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
)

// curve is curve.json and the batches beside it.
type curve struct {
	Betas       [2]float64 `json:"betas"`
	Eps         float64    `json:"eps"`
	WeightDecay float64    `json:"weight_decay"`
	NoDecay     []string   `json:"no_decay_params"`
	LR          []float64  `json:"lr"`
	Clip        *float64   `json:"clip_grad_norm"`
	Loss        []float64  `json:"loss"`
	F64         *struct {
		Loss []float64 `json:"loss"`
	} `json:"f64"`
	batches []data.Batch
	own     []float64 // Loss of the file, where F64 is used instead
}

// ownDrift is how far the reference in float32 is from itself in float64; 0 if unknown.
func (c *curve) ownDrift() float64 {
	worst := 0.0
	for i := range min(len(c.own), len(c.Loss)) {
		worst = max(worst, math.Abs(c.own[i]-c.Loss[i]))
	}
	return worst
}

func readCurve(dir string) (*curve, error) {
	c := &curve{}
	path := filepath.Join(dir, "curve.json")
	if err := readJSON(path, c); err != nil {
		return nil, err
	}
	if c.F64 != nil {
		c.own, c.Loss = c.Loss, c.F64.Loss
	}
	if len(c.Loss) == 0 || len(c.Loss) != len(c.LR) {
		return nil, fmt.Errorf("parity: %s: %d losses and %d learning rates; there must be one of each for every step", path,
			len(c.Loss), len(c.LR))
	}
	f, err := checkpoint.Open(filepath.Join(dir, "curve_batches.safetensors"))
	if err != nil {
		return nil, fmt.Errorf("parity: %w", err)
	}
	defer f.Close()
	for i := range c.Loss {
		b, err := readBatch(f, i)
		if err != nil {
			return nil, fmt.Errorf("parity: %s, step %d: %w", dir, i, err)
		}
		c.batches = append(c.batches, b)
	}
	return c, nil
}

// readBatch reads input_ids and labels [B, S], and where present attention_mask,
// position_ids and segment_ids; with step >= 0 the tensors are [steps, B, S].
func readBatch(f *checkpoint.File, step int) (data.Batch, error) {
	var b data.Batch
	read := func(name string) ([]int32, error) {
		if _, _, ok := f.Lookup(name); !ok {
			return nil, nil
		}
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		shape := t.Shape
		if step >= 0 && len(shape) == 3 {
			if step >= shape[0] {
				return nil, fmt.Errorf("%s has %d steps", name, shape[0])
			}
			n := shape[1] * shape[2]
			t, shape = t.Slice(step*n, (step+1)*n, shape[1:]...), shape[1:]
		}
		if t.DType != core.Int64 || len(shape) != 2 || b.B != 0 && (b.B != shape[0] || b.S != shape[1]) {
			return nil, fmt.Errorf("%s is %s%v, want int64 of the batch's size", name, t.DType, t.Shape)
		}
		b.B, b.S = shape[0], shape[1]
		out := make([]int32, t.Elems())
		for i, v := range t.Int64s() {
			out[i] = int32(v)
		}
		return out, nil
	}
	tensors := map[string][]int32{}
	for _, name := range []string{"input_ids", "labels", "attention_mask", "position_ids", "segment_ids"} {
		v, err := read(name)
		if err != nil {
			return b, err
		}
		tensors[name] = v
	}
	b.IDs, b.Labels, b.Positions, b.Segments = tensors["input_ids"], tensors["labels"], tensors["position_ids"],
		tensors["segment_ids"]
	if b.IDs == nil || b.Labels == nil {
		return b, fmt.Errorf("the batch needs input_ids and labels")
	}
	if b.Positions == nil {
		b.Positions = make([]int32, b.B*b.S)
		for i := range b.Positions {
			b.Positions[i] = int32(i % b.S)
		}
	}
	b.Segments = segments(b, tensors["attention_mask"])
	if b.Targets() == 0 {
		return b, errNoTargets
	}
	return b, nil
}

// segments numbers documents from 1, and 0 for padding: from segment_ids, whatever they
// start at, or one document a row; the attention mask makes padding of the rest.
func segments(b data.Batch, mask []int32) []int32 {
	out := slices.Repeat([]int32{1}, b.B*b.S)
	if b.Segments != nil {
		low := slices.Min(b.Segments)
		for i, s := range b.Segments {
			out[i] = s - low + 1
		}
	}
	for i, m := range mask {
		if m == 0 {
			out[i] = 0
		}
	}
	return out
}

// replay trains along the curve and compares every loss.
func (c *comparison) replay(ctx context.Context) error {
	cv := c.curve
	c.res.CurveReference = cv.ownDrift()
	clip := 0.0
	if cv.Clip != nil {
		clip = *cv.Clip
	}
	first := cv.batches[0]
	e, err := trainer.NewEngine(c.model, c.mem, trainer.EngineConfig{
		Batch: first.B, Seq: first.S, MaxPosition: c.maxPosition + 1, Clip: clip,
		Optim: optim.Config{Beta1: cv.Betas[0], Beta2: cv.Betas[1], Eps: cv.Eps, WeightDecay: cv.WeightDecay},
		NoDecay: func(p *nn.Param) bool {
			return slices.Contains(cv.NoDecay, p.Entries[0].Name)
		},
	})
	if err != nil {
		return err
	}
	defer e.Close()
	for i, b := range cv.batches {
		r, err := e.Step(ctx, []data.Batch{b}, cv.LR[i])
		if err != nil {
			return fmt.Errorf("curve, step %d: %w", i, err)
		}
		if d := math.Abs(r.Loss - cv.Loss[i]); worse(d, c.res.CurveLossMaxAbs) {
			c.res.CurveLossMaxAbs = d
		}
		c.res.CurveSteps++
	}
	return nil
}
