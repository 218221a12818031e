package main

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/trainer"
)

const mergeLong = `Merge an adapter into the weights of its model: write a model folder whose model
gives what the model of --model gives with the adapter of --adapter, in the same
dtypes. The adapter is a folder that tune train --lora-rank or PEFT has saved.
A model that bitsandbytes has quantised is quantised again, with a warning that
says how much that rounds.`

func (a *app) mergeCommand() *Command {
	c := &Command{Name: "merge", Usage: "--model DIR --adapter DIR --out DIR",
		Short: "merge an adapter into the weights of its model", Long: mergeLong,
		Examples: "tune merge --model DIR --adapter tune-out --out merged\n"}
	var model, adapter, out string
	f := c.Group("Flags")
	f.StringVar(&model, "model", "", "the model `FOLDER`")
	f.StringVar(&adapter, "adapter", "", "the `FOLDER` of the adapter")
	f.StringVar(&out, "out", "", "the `FOLDER` to save, which must not exist or be empty")
	return c.finish(func(ctx context.Context, _ []string) (err error) {
		for _, needed := range []string{"model", "adapter", "out"} {
			if c.Flags.Lookup(needed).Value.String() == "" {
				return c.usagef("--%s is missing: merge needs --model, --adapter and --out", needed)
			}
		}
		if err := c.notStdout("folder", "out"); err != nil {
			return err
		}
		a.saves = true
		mem, err := newMemory()
		if err != nil {
			return err
		}
		defer closing(mem, &err)
		warning, err := trainer.Merge(ctx, model, adapter, out, mem)
		if err != nil {
			return err
		}
		if warning != "" {
			a.note("warning: %s", warning)
		}
		fmt.Fprintf(a.stdout, "saved %s\n", out)
		return nil
	})
}
