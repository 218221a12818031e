package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

// change is a flag that makes a run smaller, and what that costs.
type change struct {
	Flag  string `json:"flag"`
	Value string `json:"value"`
	Cost  string `json:"cost"`
}

// String is the flag as it is written on a command line.
func (c change) String() string {
	switch {
	case c.Value == "true":
		return "--" + c.Flag
	case c.Flag == recomputeFlag, c.Value == "false":
		return "--" + c.Flag + "=" + c.Value
	}
	return "--" + c.Flag + " " + c.Value
}

// What is changed of a run so that it fits, in this order, each on top of those before it. The figures are those of
// docs/optimizers.md and docs/memory.md.
var (
	fullStages = []change{
		{recomputeFlag, automatic, ""}, // what it costs, the plan says
		{"optim", string(optim.AdamW8), "both moments in 8 bits: steps a few percent longer, 0.2% more held-out loss " +
			"where it was measured"},
		{"update-in-backward", "true", "a few percent more time; gradients are clipped by " +
			"the norm of the step before"},
		{"weights", trainer.BF16, "no more time; weights are rounded at random and saved in bfloat16, 0.1% more held-out " +
			"loss where it was measured"},
		{"optim", string(optim.Adafactor), "no first moment, and of the second the means over rows and columns: another " +
			"optimizer, which may want another --lr"},
	}
	adapterStages = []change{
		{recomputeFlag, automatic, ""},
		{"base-int8", "true", "the frozen weights in int8: 0.1% more loss before training where it was measured"},
		{"base-nf4", "true", "the frozen weights in four bits: 6% more loss before training on a model of 15 million " +
			"parameters, less on larger ones"},
	}
)

// replaces are flags that a later one stands in for.
var replaces = map[string]string{"base-nf4": "base-int8"}

// combinations returns what may be changed of a run, nothing at first, in the order in which it is to be tried. What
// kept says of a flag stays as it is. Batches are divided where that is left open and gradients may be summed.
func combinations(c trainer.Config, kept func(flag string) bool) [][]change {
	stages := fullStages
	if c.LoRA.Enabled() {
		stages = adapterStages
	}
	var all [][]change
	var with []change
	add := func() {
		all = append(all, slices.Clone(with))
		inBackward := c.Optimizer.UpdateInBackward || changesFlag(with, "update-in-backward")
		if kept("batch") || kept("grad-accum") || inBackward || !divisible(c) || len(with) == 0 {
			return
		}
		for n := 2; n <= c.Batch; n++ {
			if c.Batch%n == 0 {
				all = append(all, append(slices.Clone(with), divided(c, n)...))
			}
		}
	}
	add()
	for _, s := range stages {
		if !possible(c, s, kept) {
			continue
		}
		with = slices.DeleteFunc(with, func(w change) bool { return w.Flag == s.Flag || w.Flag == replaces[s.Flag] })
		with = append(with, s)
		add()
	}
	return all
}

func changesFlag(all []change, flag string) bool {
	return slices.ContainsFunc(all, func(c change) bool { return c.Flag == flag })
}

// possible reports whether a change may be made and would be one.
func possible(c trainer.Config, s change, kept func(flag string) bool) bool {
	if kept(s.Flag) {
		return false
	}
	switch s.Flag {
	case "update-in-backward":
		return c.Accumulate <= 1 && !c.Optimizer.UpdateInBackward
	case "base-int8", "base-nf4": // of which one at most is given
		return !kept("base-int8") && !kept("base-nf4") && c.LoRA.Base() == core.InvalidDType
	}
	return true
}

// divisible reports whether several small batches make the step of a large one. They do not where the loss depends
// on what is in a batch together: KTO's reference point is estimated from its rows, the balance of a mixture's
// experts from its tokens.
func divisible(c trainer.Config) bool {
	return c.Preference.Stage != preference.KTO && c.Objective.Balance == 0
}

// divided makes n batches of each.
func divided(c trainer.Config, n int) []change {
	cost := fmt.Sprintf("%d batches make a step of as many rows: the same updates but for rounding, in a little more "+
		"time", n)
	return []change{{"batch", strconv.Itoa(c.Batch / n), ""},
		{"grad-accum", strconv.Itoa(n * max(c.Accumulate, 1)), cost}}
}
