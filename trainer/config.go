package trainer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed98097648/tune/internal/nearest"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

// Config is everything that decides a training run. In a literal, the zero value of a field
// that Default sets means the default; in what Default returns, every value is meant as it
// is: a Clip of 0 is then no clipping.
type Config struct {
	Model string        `json:"model,omitempty"` // a Hugging Face model folder
	Data  corpus.Config `json:"data"`            // which data, and how it is read
	Out   string        `json:"out,omitempty"`   // the folder to save, which must not exist or be empty

	Steps      int     `json:"steps"`  // optimizer steps; 0 for as many as Epochs gives
	Epochs     float64 `json:"epochs"` // passes over the data
	Batch      int     `json:"batch"`  // rows of a batch
	Seq        int     `json:"seq"`    // tokens of a row
	Accumulate int     `json:"grad_accum"`
	// GroupByLength has rows of similar lengths in a step: see data.Loader.Group. It takes rows of one example each.
	GroupByLength bool `json:"group_by_length,omitempty"`

	LR          float64     `json:"lr"`
	Schedule    optim.Decay `json:"schedule"`
	Args        optim.Args  `json:"schedule_args,omitempty"`
	Warmup      int         `json:"warmup"`                 // steps
	WarmupRatio float64     `json:"warmup_ratio,omitempty"` // of all steps; Warmup comes before it
	Beta1       float64     `json:"adam_beta1"`
	Beta2       float64     `json:"adam_beta2"`
	Epsilon     float64     `json:"adam_epsilon"`
	Optimizer   Optimizer   `json:"optimizer,omitzero"`
	WeightDecay float64     `json:"weight_decay"`
	DecayAll    bool        `json:"decay_all,omitempty"` // weight decay of norms and biases, too; see Undecayed
	Clip        float64     `json:"clip"`                // largest gradient norm; 0 for no clipping

	Seed    uint64 `json:"seed"`
	Threads int    `json:"threads"` // 0 for all cores

	Precision models.Precision `json:"precision"` // of matrix products

	LoRA lora.Config `json:"lora,omitzero"`

	Words      Words             `json:"words,omitzero"`     // tokens that are added to the model's
	Select     models.Selection  `json:"selection,omitzero"` // which parameters are trained
	Objective  nn.Objective      `json:"objective,omitzero"` // what is added to the plain loss
	Preference preference.Config `json:"preference,omitzero"`

	GradientCheckpointing bool     `json:"gradient_checkpointing,omitempty"` // see EngineConfig
	CheckpointParts       []string `json:"checkpoint_parts,omitempty"`       // likewise
	// MaxKept is the most memory that kernels may keep packed weights in, which changes no bit: 0 for half of
	// what the run leaves free, negative for none. It is of this machine, and so of no checkpoint.
	MaxKept int64 `json:"-"`
	Force   bool  `json:"-"` // no MemoryError; of this machine, and so of no checkpoint
	// MaxTime ends the run as an interrupt does, after the step that exceeds it, which is the first of this process
	// or a later one; 0 for no limit. It is of no checkpoint: a run that is resumed may have as long again.
	MaxTime time.Duration `json:"-"`

	Kernels string `json:"kernels"` // a selection; see core.ParseSelection
	Strict  bool   `json:"strict"`  // a fall-back to the reference, or a kernel that is wrong, is an error
	// CheckEvery has the first call of each kernel, at each site and of each shape, compared
	// with the plain forward, and again after so many steps each; 0 for no comparison. See
	// package crosscheck.
	CheckEvery int `json:"check_every"`

	Checkpoints Checkpoints `json:"checkpoints"`
	Metric      Metric      `json:"metric,omitzero"`

	Ranks Ranks `json:"-"` // of this machine, and so of no checkpoint

	complete bool // the defaults are in: a zero is meant
}

// Default returns the configuration of a plain run. Model, Data and Out are for the caller to
// add; without Out, nothing is saved.
func Default() Config {
	return Config{Epochs: 1, Batch: measure.DefaultBatch, Seq: measure.DefaultSeq, Accumulate: 1, LR: 1e-4, Schedule: optim.Cosine,
		Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Optimizer: Optimizer{Kind: optim.AdamW}, WeightDecay: 0.01, Clip: 1, Precision: models.Float32, Kernels: "auto",
		CheckEvery:  1000,
		Preference:  preference.Default(),
		Checkpoints: Checkpoints{Keep: 2}, Metric: Metric{MaxNewTokens: defaultNewTokens}, complete: true}
}

// WithDefaults returns the configuration with the defaults filled in, as Load and Run do.
func (c Config) WithDefaults() Config {
	if c.complete {
		return c
	}
	d := Default()
	c.Epochs, c.Batch, c.Seq = cmp.Or(c.Epochs, d.Epochs), cmp.Or(c.Batch, d.Batch), cmp.Or(c.Seq, d.Seq)
	c.Accumulate, c.LR, c.Schedule = cmp.Or(c.Accumulate, d.Accumulate), cmp.Or(c.LR, d.LR), cmp.Or(c.Schedule, d.Schedule)
	c.Beta1, c.Beta2, c.Epsilon = cmp.Or(c.Beta1, d.Beta1), cmp.Or(c.Beta2, d.Beta2), cmp.Or(c.Epsilon, d.Epsilon)
	c.Optimizer.Kind = cmp.Or(c.Optimizer.Kind, d.Optimizer.Kind)
	c.WeightDecay, c.Clip = cmp.Or(c.WeightDecay, d.WeightDecay), cmp.Or(c.Clip, d.Clip)
	c.Preference = c.Preference.WithDefaults()
	c.Precision = cmp.Or(c.Precision, d.Precision)
	c.Kernels, c.CheckEvery = cmp.Or(c.Kernels, d.Kernels), cmp.Or(c.CheckEvery, d.CheckEvery)
	c.Checkpoints.Keep = cmp.Or(c.Checkpoints.Keep, d.Checkpoints.Keep)
	c.Metric.MaxNewTokens = cmp.Or(c.Metric.MaxNewTokens, d.Metric.MaxNewTokens)
	c.complete = true
	return c
}

// warmup returns the steps of the warm-up in a run of so many.
func (c Config) warmup(steps int) int {
	if c.Warmup > 0 {
		return c.Warmup
	}
	return int(math.Ceil(c.WarmupRatio * float64(steps)))
}

// unevaluated says which setting leaves nothing to evaluate, "" if none does.
func (c Config) unevaluated() string {
	switch size := c.Data.EvalSize; {
	case c.Checkpoints.NoEval:
		return "trainer.Checkpoints.NoEval"
	case size != nil && *size == 0 && len(c.Data.Eval) == 0:
		return "corpus.Config.EvalSize 0"
	}
	return ""
}

// needEvaluations reports what is of evaluations, which there are none of with what is given.
func (c Config) needEvaluations(with string) error {
	var errs []error
	for _, f := range []struct {
		given      bool
		field, why string
	}{{c.Checkpoints.LoadBest, "Checkpoints.LoadBest", "the best model is that of the best evaluation"},
		{c.Checkpoints.Patience > 0, "Checkpoints.Patience", "it counts evaluations"},
		{c.Metric.Name != "", "Metric.Name", "evaluations measure it"}} {
		if f.given && with != "" {
			errs = append(errs, fmt.Errorf("trainer.%s is given with %s: %s", f.field, with, f.why))
		}
	}
	return errors.Join(errs...)
}

const (
	mostEpochs     = 1e6
	mostAccumulate = 1 << 16 // batches that are in memory together
)

// Validate reports every field that makes no sense, with the defaults filled in.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(c.Steps >= 0, "trainer.Config.Steps is %d, must not be negative", c.Steps)
	need(c.Steps > 0 || c.Epochs > 0, "trainer.Config.Epochs is %g, must be positive when trainer.Config.Steps is not given", c.Epochs)
	need(c.Epochs >= 0 && c.Epochs <= mostEpochs, "trainer.Config.Epochs is %g, must be between 0 and %g", c.Epochs, float64(mostEpochs))
	need(c.Batch > 0, "trainer.Config.Batch is %d, must be positive", c.Batch)
	need(c.Seq > 1, "trainer.Config.Seq is %d, must be at least 2: the model predicts each token from those before it", c.Seq)
	need(c.Batch <= nn.MaxTokens/max(c.Seq, 1), "trainer.Config.Batch %d of trainer.Config.Seq %d is more than %d tokens at once", c.Batch, c.Seq, nn.MaxTokens)
	need(c.Accumulate > 0 && c.Accumulate <= mostAccumulate, "trainer.Config.Accumulate is %d, must be between 1 and %d", c.Accumulate, mostAccumulate)
	need(!c.GroupByLength || c.Data.NoPacking, "trainer.Config.GroupByLength is given, but examples share rows until "+
		"these are full, and so there is no padding to spare: leave it out, or give each example a row of its own with "+
		"corpus.Config.NoPacking")
	need(c.LR > 0 && finite(c.LR), "trainer.Config.LR is %g, must be positive", c.LR)
	need(c.Warmup >= 0, "trainer.Config.Warmup is %d, must not be negative", c.Warmup)
	need(c.WarmupRatio >= 0 && c.WarmupRatio <= 1, "trainer.Config.WarmupRatio is %g, must be between 0 and 1", c.WarmupRatio)
	need(c.Beta1 >= 0 && c.Beta1 < 1, "trainer.Config.Beta1 is %g, must be at least 0 and below 1", c.Beta1)
	need(c.Beta2 >= 0 && c.Beta2 < 1, "trainer.Config.Beta2 is %g, must be at least 0 and below 1", c.Beta2)
	need(c.Epsilon > 0 && finite(c.Epsilon), "trainer.Config.Epsilon is %g, must be positive", c.Epsilon)
	need(c.WeightDecay >= 0 && finite(c.WeightDecay), "trainer.Config.WeightDecay is %g, must not be negative", c.WeightDecay)
	need(c.Clip >= 0 && finite(c.Clip), "trainer.Config.Clip is %g, must not be negative", c.Clip)
	need(c.CheckEvery >= 0, "trainer.Config.CheckEvery is %d, must not be negative; 0 compares no kernel with the plain forward", c.CheckEvery)
	need(c.MaxTime >= 0, "trainer.Config.MaxTime is %s, must not be negative", c.MaxTime)
	need(c.Threads >= 0, "trainer.Config.Threads is %d, must not be negative", c.Threads)
	need(c.Threads <= simd.MaxThreads(), "trainer.Config.Threads is %d, must be at most %d; 0 takes all cores", c.Threads, simd.MaxThreads())
	for _, p := range c.CheckpointParts {
		if _, _, err := nn.ParseLayerPart(p); err != nil {
			errs = append(errs, fmt.Errorf("trainer.Config.CheckpointParts: %w", err))
		}
	}
	errs = append(errs, c.Data.Validate())
	need(!c.Words.Marks || c.Data.Template != "", "trainer.Words.Marks is for a built-in chat template: name one with "+
		"corpus.Config.Template")
	if err := nearest.OneOf("trainer.Config.Schedule", string(c.Schedule), optim.Decays()...); err != nil {
		errs = append(errs, err)
	} else if err := errors.Join(c.Args.Validate(c.Schedule), c.Args.CheckPeak(c.Schedule, c.LR)); err != nil {
		errs = append(errs, fmt.Errorf("trainer.Config.Args: %w", err))
	}
	precision := string(cmp.Or(c.Precision, models.Float32))
	errs = append(errs, nearest.OneOf("trainer.Config.Precision", precision, models.Precisions()...), c.LoRA.Validate(),
		c.Preference.Validate(), c.validatePreference(), c.Objective.Validate(), c.Words.Validate(),
		c.Select.Validate(c.LoRA.Enabled()), c.Optimizer.validate(c.Accumulate, c.LoRA.Enabled()),
		c.Checkpoints.validate(c.Out), c.validateMetric(), c.needEvaluations(c.unevaluated()))
	return errors.Join(errs...)
}
