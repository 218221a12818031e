package main

import (
	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/crosscheck"
)

// addCheck adds the flag that says how often kernels are compared with the plain forward, with
// what is counted.
func addCheck(f *pflag.FlagSet, every *int, counted string) {
	f.IntVar(every, "check-every", *every, "compare what each kernel gives with the plain forward on the run's own "+
		"tensors, at first and again after so many "+counted+", and take one that is wrong off; 0 for never")
}

// addStrict adds the flag that makes a plugin that fails end the run.
func addStrict(f *pflag.FlagSet, strict *bool) {
	f.BoolVar(strict, "strict", false, "fail where the plain implementation would replace a plugin, which is given up "+
		"after three deaths on one call, or once it was wrong")
}

// checker returns what compares the kernels of a model that is not trained, and tells of
// those that it takes off.
func (a *app) checker(every int, strict bool) *crosscheck.Checker {
	c := crosscheck.New(every)
	if c != nil {
		c.Strict = strict
		c.OnWrong = func(w *core.KernelError, sites int) { a.note("warning: %v", trainer.TakenOff(w, sites)) }
	}
	return c
}
