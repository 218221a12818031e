package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/models"
)

// compareFlag is the flag of plan that has weights compared.
const compareFlag = "compare-weights"

func addCompareWeights(f *pflag.FlagSet) *bool {
	return f.Bool(compareFlag, false, "also say what the run takes with its weights in float32, bfloat16, int8 and NF4, and the "+
		"loss on the held-out data that it would begin with: the model is read each time")
}

// weightsRun is the run with its weights stored in one way.
type weightsRun struct {
	Weights string   `json:"weights"`
	Flags   string   `json:"flags"` // that choose it, beside those given
	Bytes   int64    `json:"bytes"`
	Loss    *float64 `json:"loss"` // held-out, before training; null where so much memory is not free
	with    []change
}

// storages are the ways in which weights may be stored: of a whole model those of its training, and those of adapters
// on it; of adapters what their base may be.
func storages(c trainer.Config) []weightsRun {
	way := func(weights, dtype, base string) weightsRun {
		r := weightsRun{Weights: weights}
		set := func(flag, value, now string) {
			if value != now {
				r.with = append(r.with, change{Flag: flag, Value: value})
			}
		}
		if base != "" && !c.LoRA.Enabled() {
			set("lora-rank", "8", "")
		}
		set("weights", dtype, cmp.Or(c.Optimizer.Weights, trainer.F32))
		set("base-int8", strconv.FormatBool(base == "int8"), strconv.FormatBool(c.LoRA.BaseInt8))
		set("base-nf4", strconv.FormatBool(base == "nf4"), strconv.FormatBool(c.LoRA.BaseNF4))
		return r
	}
	quantised := []weightsRun{way("int8", trainer.F32, "int8"), way("nf4", trainer.F32, "nf4")}
	if c.LoRA.Enabled() {
		return append([]weightsRun{way("as in files", trainer.F32, "")}, quantised...)
	}
	return append([]weightsRun{way("float32", trainer.F32, ""), way("bfloat16", trainer.BF16, "")}, quantised...)
}

// compareWeights plans the run with its weights stored in each way, and measures the loss that it would begin with.
func (a *app) compareWeights(ctx context.Context, command *Command, t *trainFlags, mem core.Memory,
	reg *core.Registry) (all []weightsRun, err error) {
	c := t.config
	switch {
	case len(c.Data.Paths) == 0:
		return nil, command.usagef("--%s is given without --data: name the data whose held-out part tells the losses", compareFlag)
	case c.Preference.Enabled():
		return nil, command.usagef("--%s measures the loss of a text, which --stage %s has not: leave one of them out", compareFlag,
			c.Preference.Stage)
	}
	tok, err := c.Tokenizer()
	if err != nil {
		return nil, err
	}
	read, err := corpus.Load(ctx, c.Data, trainer.DataModel(c, tok))
	if err != nil {
		return nil, err
	}
	defer closing(read, &err)
	if read.Eval.Len() == 0 {
		return nil, command.usagef("--%s needs held-out data: give --eval-data, or an --eval-size above 0", compareFlag)
	}
	for _, r := range storages(c) {
		f := a.fitter(ctx, command, t, c, mem, reg)
		f.auto = false
		planned, err := f.try(r.with)
		if errors.Is(err, errNoRun) || errors.Is(err, core.ErrNotSupported) {
			continue // such as int8, of what bitsandbytes has quantised
		}
		if err != nil {
			return nil, err
		}
		r.Bytes, r.Flags = planned.Bytes, flagsOf(r.with)
		with, err := changed(c, r.with)
		if err != nil {
			return nil, err
		}
		a.note("held-out loss, weights %s", r.Weights)
		if r.Loss, err = beginningLoss(ctx, with, read.Eval); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// beginningLoss loads the model of a run and measures its loss on held-out rows; nil if that takes more memory than is
// free.
func beginningLoss(ctx context.Context, c trainer.Config, rows data.Rows) (_ *float64, err error) {
	options, err := c.LoadOptions()
	if err != nil {
		return nil, err
	}
	var large *trainer.MemoryError
	options.Check = func(m *models.Model) error {
		var need int64
		for _, p := range m.Params() {
			need += p.Bytes()
		}
		if free := memory.Available(); free > 0 && need > free {
			return &trainer.MemoryError{Bytes: need, Free: free}
		}
		return nil
	}
	mem, err := transport.NewMemory("tensors", 0)
	if err != nil {
		return nil, err
	}
	defer closing(mem, &err)
	m, err := models.LoadWith(c.Model, mem, options)
	if errors.As(err, &large) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer m.Free()
	if err := m.Round(c.Precision.Products()); err != nil {
		return nil, err
	}
	e, err := trainer.NewEvaluator(m, mem, c.Batch, c.Seq, c.Seq, nil)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	stream, failed := data.Stream(rows, c.Batch)
	loss, _, err := e.Loss(ctx, stream)
	return &loss, cmp.Or(err, failed())
}

// printWeights writes the comparison, each loss beside the first.
func printWeights(w io.Writer, all []weightsRun) {
	if len(all) == 0 {
		return
	}
	fmt.Fprint(w, "\nweights            planned  held-out loss before training\n")
	first := math.NaN()
	for i, r := range all {
		loss, more := "not measured: too little memory is free", ""
		if r.Loss != nil {
			loss = fmt.Sprintf("%.4f", *r.Loss)
		}
		if i == 0 && r.Loss != nil {
			first = *r.Loss
		} else if r.Loss != nil && !math.IsNaN(first) {
			more = fmt.Sprintf("  %+.2f%%", 100*(*r.Loss/first-1))
		}
		fmt.Fprintf(w, "  %-12s %11s  %s%s\n", r.Weights, amount.Bytes(r.Bytes), loss, more)
		if r.Flags != "" {
			fmt.Fprintf(w, "  %-12s %11s  with %s\n", "", "", r.Flags)
		}
	}
}
