package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
)

// compareFlag is the flag of plan that has weights compared.
const compareFlag = "compare-weights"

func addCompareWeights(f *pflag.FlagSet) *bool {
	return f.Bool(compareFlag, false, "also say what the run takes with its weights in float32, bfloat16, int8 and NF4, "+
		"and the loss on the held-out data that it would begin with: the model is read each time")
}

// weightsRun is the run with its weights stored in one way.
type weightsRun struct {
	Weights string   `json:"weights"`
	Flags   string   `json:"flags"` // that choose it, beside those given
	Bytes   int64    `json:"bytes"`
	Loss    *float64 `json:"loss"`             // held-out, before training; null for a reason
	Reason  string   `json:"reason,omitempty"` // why there is no such run, or no loss
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

// checkCompareWeights validates what needs no file.
func checkCompareWeights(command *Command, c trainer.Config) error {
	switch {
	case len(c.Data.Paths) == 0:
		return command.usagef("--%s is given without --data: name the data whose held-out part tells the losses",
			compareFlag)
	case c.Preference.Enabled():
		return command.usagef("--%s measures the loss of a text, which --stage %s has not: leave one of them out",
			compareFlag, c.Preference.Stage)
	}
	return nil
}

// compareWeights plans the run with its weights stored in each way, and measures the loss that it would begin
// with.
func (a *app) compareWeights(ctx context.Context, command *Command, f *fitter) (all []weightsRun, err error) {
	rows := f.course.read.Eval
	if rows.Len() == 0 {
		return nil, command.usagef("--%s needs held-out data: give --eval-data, or an --eval-size above 0", compareFlag)
	}
	f.auto = false
	for _, r := range storages(f.config) {
		r.Flags = flagsOf(r.with)
		planned, err := f.try(r.with)
		if errors.Is(err, errNoRun) || errors.Is(err, core.ErrNotSupported) { // int8 of what is quantised, for one
			r.Reason = flagged(err.Error())
			all = append(all, r)
			continue
		}
		if err != nil {
			return nil, err
		}
		r.Bytes = planned.Bytes
		with, err := changed(f.config, r.with)
		if err != nil {
			return nil, err
		}
		a.note("held-out loss, weights %s", r.Weights)
		var large *trainer.MemoryError
		if r.Loss, err = beginningLoss(ctx, with, rows); errors.As(err, &large) {
			r.Reason = fmt.Sprintf("not measured: that takes %s, and %s are free", amount.Bytes(large.Bytes),
				amount.Bytes(large.Free))
		} else if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// beginningLoss loads the model of a run and measures its loss on held-out rows, one at a time, as logits are in
// memory. A trainer.MemoryError is of a model and a row that take more memory than is free.
func beginningLoss(ctx context.Context, c trainer.Config, rows data.Rows) (_ *float64, err error) {
	options, err := c.LoadOptions()
	if err != nil {
		return nil, err
	}
	mem, err := transport.NewMemory("tensors", 0)
	if err != nil {
		return nil, err
	}
	defer closing(mem, &err)
	options.Check = func(m *models.Model) error {
		need, err := forecast.Evaluation(m, mem, 1, c.Seq)
		if free := memory.Available(); err == nil && free > 0 && need > free {
			err = &trainer.MemoryError{Bytes: need, Free: free}
		}
		return err
	}
	m, err := models.LoadWith(c.Model, mem, options)
	if err != nil {
		return nil, err
	}
	defer m.Free()
	if err := m.Round(c.Precision.Products()); err != nil {
		return nil, err
	}
	e, err := trainer.NewEvaluator(m, mem, 1, c.Seq, c.Seq, nil)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	stream, failed := data.Stream(rows, 1)
	loss, _, err := e.Loss(ctx, stream)
	return &loss, cmp.Or(err, failed())
}

// printWeights writes the comparison, each loss beside the first.
func printWeights(w io.Writer, all []weightsRun) {
	if len(all) == 0 {
		return
	}
	fmt.Fprint(w, "\nweights            planned  held-out loss before training\n")
	for _, r := range all {
		bytes, loss := "", ""
		if r.Bytes > 0 {
			bytes = amount.Bytes(r.Bytes)
		}
		if r.Loss != nil {
			loss = fmt.Sprintf("  %.4f", *r.Loss)
		}
		if first := all[0].Loss; r.Loss != nil && first != nil && first != r.Loss {
			loss += fmt.Sprintf("  %+.2f%%", 100*(*r.Loss / *first - 1))
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-12s %11s%s", r.Weights, bytes, loss), " "))
		if r.Flags != "" {
			fmt.Fprintf(w, "  %-12s %11s  with %s\n", "", "", r.Flags)
		}
		for _, line := range indented(r.Reason) {
			fmt.Fprintln(w, line)
		}
	}
}
