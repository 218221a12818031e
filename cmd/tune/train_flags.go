package main

import (
	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/optim"
)

const defaultOut = "tune-out"

func (t *trainFlags) addData(f *pflag.FlagSet) {
	c := &t.config
	f.StringVar(&c.Model, "model", "", "the model `FOLDER`")
	addDataPaths(f, &c.Data)
	f.StringVar(&c.Out, "out", defaultOut, "the `FOLDER` to save, which must not exist or be empty; unless given, the first of "+
		defaultOut+", "+defaultOut+"-2, ... that does not exist")
}

func (t *trainFlags) addLength(f *pflag.FlagSet) {
	c := &t.config
	f.IntVar(&c.Steps, "steps", c.Steps, "optimizer `STEPS`; 0 for as many as --epochs gives")
	f.Float64Var(&c.Epochs, "epochs", c.Epochs, "`PASSES` over the data, may be a fraction; --steps comes before it")
	addBatch(f, c)
}

func (t *trainFlags) addOptimizer(f *pflag.FlagSet) {
	c := &t.config
	f.Float64Var(&c.LR, "lr", c.LR, "`PEAK` of the learning rate")
	f.StringVar((*string)(&c.Schedule), "schedule", string(c.Schedule), "the `SHAPE` of the learning rate after the warm-up: cosine, linear or constant")
	f.IntVar(&c.Warmup, "warmup", c.Warmup, "`STEPS` of linear warm-up")
	f.Float64Var(&c.WarmupRatio, "warmup-ratio", c.WarmupRatio, "`SHARE` of all steps for the linear warm-up, unless --warmup gives steps")
	addUpdate(f, c)
}

// The flags of a single step, which bench has too.

func addBatch(f *pflag.FlagSet, c *trainer.Config) {
	f.IntVar(&c.Batch, "batch", c.Batch, "`ROWS` of a batch")
	f.IntVar(&c.Seq, "seq", c.Seq, "`TOKENS` of a row; by default no more than the model can take")
	f.IntVar(&c.Accumulate, "grad-accum", c.Accumulate, "`BATCHES` whose gradients make one step")
}

func addUpdate(f *pflag.FlagSet, c *trainer.Config) {
	f.Float64Var(&c.WeightDecay, "weight-decay", c.WeightDecay, "decoupled weight `DECAY` of AdamW")
	f.Float64Var(&c.Clip, "clip", c.Clip, "largest `NORM` of the gradient; 0 for no clipping")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "`SEED` of everything random: the same seed gives the same losses, to the bit, with the same kernels; auto may choose others when it measures anew, --kernels from:RUN does not")
}

func addThreads(f *pflag.FlagSet, threads *int) {
	f.IntVar(threads, "threads", *threads, "`THREADS` to compute with; 0 for all cores")
}

func addMemory(f *pflag.FlagSet, c *trainer.Config) {
	f.BoolVar(&c.GradientCheckpointing, "gradient-checkpointing", false, "compute each layer's activations again for the backward pass "+
		"instead of keeping them: less memory, up to a third more time, the same losses to the bit")
}

func schedules() []string {
	return []string{string(optim.Cosine), string(optim.Linear), string(optim.Constant)}
}
