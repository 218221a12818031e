package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/preference"
)

// texts are combinations as flags.
func texts(all [][]change) []string {
	var out []string
	for _, c := range all {
		out = append(out, flagsOf(c))
	}
	return out
}

// TestTheOrderOfWhatIsChanged: the cheapest first, and never what the user has set.
func TestTheOrderOfWhatIsChanged(t *testing.T) {
	const again, half = "--gradient-checkpointing=auto", " --batch 2 --grad-accum 2"
	const quarter = " --batch 1 --grad-accum 4"
	const bits, late, narrow = " --optim adamw_8bit", " --update-in-backward", " --weights bf16"
	for name, tt := range map[string]struct {
		config trainer.Config
		kept   []string
		want   []string
	}{
		"all weights": {trainer.Config{Batch: 4}, nil, []string{"",
			again, again + half, again + quarter, again + bits, again + bits + half, again + bits + quarter,
			again + bits + late, again + bits + late + narrow, again + late + narrow + " --optim adafactor"}},
		"batches and layers are kept": {trainer.Config{Batch: 4}, []string{"batch", recomputeFlag}, []string{"",
			"--optim adamw_8bit", "--optim adamw_8bit" + late, "--optim adamw_8bit" + late + narrow,
			"--update-in-backward --weights bf16 --optim adafactor"}},
		"the optimizer is kept": {trainer.Config{Batch: 1}, []string{"optim"}, []string{"", again, again + late,
			again + late + narrow}},
		"batches are summed": {trainer.Config{Batch: 1, Accumulate: 2}, []string{"grad-accum"}, []string{"", again,
			again + bits, again + bits + narrow, again + narrow + " --optim adafactor"}},
		"adapters": {trainer.Config{Batch: 1, LoRA: lora.Config{Rank: 8}}, nil, []string{"", again,
			again + " --base-int8", again + " --base-nf4"}},
		"adapters on int8": {trainer.Config{Batch: 1, LoRA: lora.Config{Rank: 8, BaseInt8: true}}, []string{"base-int8"},
			[]string{"", again}},
		"the rows of a batch belong together": {trainer.Config{Batch: 2, LoRA: lora.Config{Rank: 8},
			Preference: preference.Config{Stage: preference.KTO}}, []string{"base-nf4"}, []string{"", again}},
		"so do the tokens of a mixture": {trainer.Config{Batch: 2, LoRA: lora.Config{Rank: 8},
			Objective: nn.Objective{Balance: 0.01}}, []string{"base-nf4"}, []string{"", again}},
		"all is kept": {trainer.Config{Batch: 4}, []string{"batch", recomputeFlag, "optim", "update-in-backward", "weights"},
			[]string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			got := texts(combinations(tt.config, func(flag string) bool { return slices.Contains(tt.kept, flag) }))
			if !slices.Equal(got, tt.want) {
				t.Errorf("\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// fitterOf returns one for a tiny model, without kernels.
func fitterOf(t *testing.T, change func(*trainer.Config)) *fitter {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "m")
	if err := writeModel(dir, "llama"); err != nil {
		t.Fatal(err)
	}
	c := trainer.Default()
	c.Model, c.Batch, c.Seq, c.Kernels = dir, 2, 64, "none"
	change(&c)
	return &fitter{config: c, mem: autograd.Heap{}, kept: func(string) bool { return false },
		patch: func(trainer.Config) func(*models.Model) (*core.Report, error) {
			return func(*models.Model) (*core.Report, error) { return &core.Report{}, nil }
		}}
}

// TestTheFirstThatFitsIsChosen for every limit that matters, which is what each combination is planned to take: the
// chosen one fits, none before it does, and what it changes gives the same plan once more.
func TestTheFirstThatFitsIsChosen(t *testing.T) {
	for name, change := range map[string]func(*trainer.Config){
		"all weights": func(*trainer.Config) {},
		"adapters":    func(c *trainer.Config) { c.LoRA.Rank = 4 },
	} {
		t.Run(name, func(t *testing.T) {
			f := fitterOf(t, change)
			all := combinations(f.config, f.kept)
			var sizes []int64
			f.limit = 1 // all layers
			for _, with := range all {
				planned, err := f.try(with)
				if err != nil {
					t.Fatalf("%s: %v", flagsOf(with), err)
				}
				sizes = append(sizes, planned.Bytes)
			}
			chosen := map[string]bool{}
			for _, limit := range sizes {
				f.limit = limit
				asked, best, fits, err := f.choose()
				if err != nil || !fits || best.Bytes > limit || asked.Bytes != sizes[0] {
					t.Fatalf("limit %d: %+v, fits %t, as asked %d, %v", limit, best, fits, asked.Bytes, err)
				}
				chosen[flagsOf(best.Changes)] = true
				first := slices.IndexFunc(sizes, func(n int64) bool { return n <= limit })
				if got, want := besidesLayers(best.Changes), besidesLayers(all[first]); got != want {
					t.Errorf("limit %d: chose %q, but %q fits", limit, got, want)
				}
				c, err := changed(f.config, best.Changes)
				if err != nil {
					t.Fatal(err)
				}
				again := *f
				again.config, again.auto, again.kept = c, c.GradientCheckpointing, func(string) bool { return true }
				if planned, _, _, err := again.choose(); err != nil || planned.Bytes != best.Bytes {
					t.Errorf("limit %d: %q is planned to take %d bytes, and with these flags set %+v, %v", limit,
						flagsOf(best.Changes), best.Bytes, planned, err)
				}
			}
			if len(chosen) < 3 {
				t.Errorf("only %v were chosen", chosen)
			}
			f.limit = slices.Min(sizes) - 1
			if _, best, fits, err := f.choose(); err != nil || fits || best.Bytes != slices.Min(sizes) {
				t.Errorf("limit %d: %+v, fits %t, %v; nothing is that small", f.limit, best, fits, err)
			}
		})
	}
}

// besidesLayers are the flags but for that of layers, which a combination has and a choice of none has not.
func besidesLayers(all []change) string {
	return flagsOf(slices.DeleteFunc(slices.Clone(all), func(c change) bool { return c.Flag == recomputeFlag }))
}

// TestMemoryIsASizeOrAuto: sizes have units, and auto has none.
func TestMemoryIsASizeOrAuto(t *testing.T) {
	for text, want := range map[string]int64{"6GiB": 6 << 30, "auto": 0, "512MB": 512e6} {
		var l memoryLimit
		if err := l.Set(text); err != nil || l.bytes != want || l.String() != text {
			t.Errorf("--memory %s is %d, %q, %v", text, l.bytes, l.String(), err)
		}
	}
	for _, text := range []string{"", "much", "-1", "0"} {
		if new(memoryLimit).Set(text) == nil {
			t.Errorf("--memory %q is taken", text)
		}
	}
}
