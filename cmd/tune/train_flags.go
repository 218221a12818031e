package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/optim"
)

const defaultOut = "tune-out"

func (t *trainFlags) addData(f *pflag.FlagSet) {
	c := &t.config
	f.StringVar(&c.Model, "model", "", "the model `FOLDER`")
	addDataPaths(f, &c.Data)
	f.StringVar(&c.Out, "out", defaultOut, "the `FOLDER` to save, which must not exist or be empty; unless given, the "+
		"first of "+defaultOut+", "+defaultOut+"-2, ... that does not exist")
}

func (t *trainFlags) addLength(f *pflag.FlagSet) {
	c := &t.config
	f.IntVar(&c.Steps, "steps", c.Steps, "optimizer `STEPS`; 0 for as many as --epochs gives")
	f.Float64Var(&c.Epochs, "epochs", c.Epochs, "`PASSES` over the data, may be a fraction; --steps comes before it")
	f.DurationVar(&c.MaxTime, "max-time", c.MaxTime, "the most `TIME` for steps, such as 1h30m: then the run ends "+
		"as if it was interrupted, and its model is saved; 0 for no limit")
	addBatch(f, c)
}

func (t *trainFlags) addOptimizer(f *pflag.FlagSet) {
	c := &t.config
	f.Float64Var(&c.LR, "lr", c.LR, "`PEAK` of the learning rate")
	f.BoolVar(&t.findLR, "find-lr", false, "try learning rates from 1e-7 to 1 in 100 steps, show the loss at each "+
		"and name one; nothing is saved")
	f.StringVar((*string)(&c.Schedule), "schedule", string(c.Schedule),
		"the `SHAPE` of the learning rate, by transformers' names: "+strings.Join(optim.Decays(), ", "))
	f.Var(value{"string", func() string { return c.Args.String() }, func(text string) (err error) {
		if c.Args, err = optim.ParseArgs(text); len(c.Args) == 0 {
			c.Args = nil
		}
		return err
	}}, "schedule-args", "parameters of the shape, as `NAME=VALUE`,..., by transformers' names, such as num_cycles=2")
	f.IntVar(&c.Warmup, "warmup", c.Warmup, "`STEPS` of linear warm-up, of which the first has a rate of 0; constant "+
		"has none")
	f.Float64Var(&c.WarmupRatio, "warmup-ratio", c.WarmupRatio, "`SHARE` of all steps for the linear warm-up, unless "+
		"--warmup gives steps")
	addOptim(f, c)
	addFactors(f, c)
	addUpdate(f, c)
	f.BoolVar(&c.DecayAll, "decay-all", c.DecayAll, "weight decay of norms and biases, too")
}

// The flags of a single step, which bench has too.

func addBatch(f *pflag.FlagSet, c *trainer.Config) {
	addRows(f, c)
	f.IntVar(&c.Accumulate, "grad-accum", c.Accumulate, "`BATCHES` whose gradients make one step")
}

func addRows(f *pflag.FlagSet, c *trainer.Config) {
	f.IntVar(&c.Batch, "batch", c.Batch, "`ROWS` of a batch")
	f.IntVar(&c.Seq, "seq", c.Seq, "`TOKENS` of a row; by default no more than the model can take")
}

func addUpdate(f *pflag.FlagSet, c *trainer.Config) {
	f.Float64Var(&c.WeightDecay, "weight-decay", c.WeightDecay, "weight `DECAY`, decoupled but for sgd, of all weights "+
		"but those of norms and biases")
	f.Float64Var(&c.Clip, "clip", c.Clip, "largest `NORM` of the gradient; 0 for no clipping")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "`SEED` of everything random: the same seed gives the same losses, to the "+
		"bit, with the same kernels; auto may choose others when it measures anew, --kernels from:RUN does not")
}

func addThreads(f *pflag.FlagSet, threads *int) {
	f.IntVar(threads, "threads", *threads, "`THREADS` to compute with; 0 for all cores")
}

func addMaxKept(f *pflag.FlagSet, c *trainer.Config) {
	f.Var(zeroable("size", &c.MaxKept, func(text string) (int64, error) {
		if text == "0" {
			return 0, nil
		}
		var b byteSize
		err := b.Set(text)
		return b.bytes, err
	}), "max-kept", "the most memory that kernels may keep frozen weights in, packed for "+
		"their products, which spares time and changes no bit: a `SIZE` such as 1GiB, 0 for none; by default half of what "+
		"the run leaves free")
}

func addPrecision(f *pflag.FlagSet, c *trainer.Config) {
	f.StringVar((*string)(&c.Precision), "precision", string(c.Precision), "`TYPE` in which linear layers "+
		"multiply: float32, or bf16 for factors rounded to bfloat16; weights, gradients, sums and all else are float32 "+
		"with either")
}
