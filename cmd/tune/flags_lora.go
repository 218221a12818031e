package main

import (
	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer/lora"
)

// addLoRA adds the flags of adapters.
func addLoRA(f *pflag.FlagSet, c *lora.Config) {
	f.IntVar(&c.Rank, "lora-rank", c.Rank, "train adapters of this `RANK` and leave the weights as they are; 0 to "+
		"train the weights")
	f.Float64Var(&c.Alpha, "lora-alpha", c.Alpha, "what the adapters add is scaled by `ALPHA` divided by the rank; 0 "+
		"for twice the rank")
	f.Float64Var(&c.Dropout, "lora-dropout", c.Dropout, "`SHARE` of the inputs that the adapters do not see while "+
		"training")
	f.StringSliceVar(&c.Targets, "lora-target", c.Targets, "`NAMES` of the layers that get adapters, such as "+
		"q_proj,v_proj, or all-linear for every one but the head, which is the default")
	f.Var(value{"string", func() string { return numberList(c.Layers) }, func(text string) (err error) {
		c.Layers, err = parseNumbers(text)
		return err
	}}, "lora-layers", "`NUMBERS` of the layers that get adapters, from 0, such as 0,4-7; all, unless given")
	f.BoolVar(&c.RSLoRA, "lora-rslora", c.RSLoRA, "divide alpha by the root of the rank instead")
	f.BoolVar(&c.DoRA, "lora-dora", c.DoRA, "adapt the directions of the weights, and train how long their rows "+
		"are beside it (DoRA)")
	f.StringVar(&c.Init, "lora-init", c.Init, "`WHAT` the adapters begin with: pissa, the principal part of each "+
		"weight, which is taken off it; by default they add nothing at first")
	f.StringVar(&c.Adapter, "adapter", c.Adapter, "the `FOLDER` of an adapter to train further, in PEFT's format; it "+
		"brings its rank, alpha, dropout and targets")
	f.BoolVar(&c.BaseInt8, "base-int8", c.BaseInt8, "keep the weights that adapters are for in int8, a quarter of "+
		"their size as float32")
	f.BoolVar(&c.BaseNF4, "base-nf4", c.BaseNF4, "keep them in NF4 instead, an eighth of their size as float32 (QLoRA)")
}
