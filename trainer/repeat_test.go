package trainer_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/measure"
)

// moody is a kernel that auto takes on one day and leaves on another, whatever the machine:
// while it is measured it does nothing, or nothing but sleep.
type moody struct {
	core.Kernel
	takes time.Duration
	used  bool // measuring is over
}

func (k *moody) Info() core.Info {
	i := k.Kernel.Info()
	i.Name = "moody"
	return i
}

func (k *moody) Forward(ctx context.Context, c *core.Call) error {
	if !k.used {
		time.Sleep(k.takes)
		return nil
	}
	return k.Kernel.Forward(ctx, c)
}

func (k *moody) Backward(ctx context.Context, c *core.Call) error {
	if !k.used {
		time.Sleep(k.takes)
		return nil
	}
	return k.Kernel.Backward(ctx, c)
}

// mood runs the tiny model with a selection, on a day on which the kernel takes so long. It
// returns the job, and on how many sites the kernel was.
func mood(t *testing.T, selection string, takes time.Duration) (*trainer.Job, int) {
	t.Helper()
	k := &moody{Kernel: reference.Single(core.SwiGLU), takes: takes}
	j := job(t)
	j.Registry = core.NewRegistry()
	if err := j.Registry.Register(k); err != nil {
		t.Fatal(err)
	}
	j.Config.Kernels, j.Config.LR, j.Config.Steps = selection, 5e-3, 6
	j.Config.Threads = 1 // on a busy machine one that waits for another says nothing about kernels
	j.Config.Checkpoints.SaveEvery = 3
	j.Measure = measure.Options{CacheDir: "off"}
	j.Hooks.OnPatch = func(*core.Report) { k.used = true }
	return j, run1(t, j).Report.Applied()["moody"]
}

// TestARunCanBeRepeatedWhateverAutoWouldChoose: auto decides by a clock, so that two runs
// with the same seed may differ by rounding. Repeating the kernels of either gives its bits.
func TestARunCanBeRepeatedWhateverAutoWouldChoose(t *testing.T) {
	const slow = 30 * time.Millisecond
	with, n := mood(t, "auto", 0)
	without, none := mood(t, "auto", slow)
	if n == 0 || none != 0 {
		t.Fatalf("the kernel is on %d sites when it is fast, on %d when it is slow", n, none)
	}
	a, weights := result(t, with.Config.Out)
	b, others := result(t, without.Config.Out)
	if bytes.Equal(a, b) || bytes.Equal(weights, others) {
		t.Fatal("the kernel does not differ from the plain forward, so that this test shows nothing")
	}
	for name, run := range map[string]*trainer.Job{"with": with, "without": without} {
		for _, path := range []string{"", "checkpoint-3", journal.File} {
			for _, takes := range []time.Duration{0, slow} {
				again, _ := mood(t, "from:"+filepath.Join(run.Config.Out, path), takes)
				log, weights := result(t, again.Config.Out)
				want, wantWeights := result(t, run.Config.Out)
				if !bytes.Equal(bytes.ReplaceAll(log, []byte(again.Config.Kernels), []byte("auto")), want) || !bytes.Equal(weights, wantWeights) {
					t.Errorf("%s, from %q, on a day of %v: the log or the weights differ:\n%s\nwant\n%s", name, path, takes, log, want)
				}
			}
		}
	}
}

// TestARepeatedRunIsARecordToo: nothing is measured, or this would take hours.
func TestARepeatedRunIsARecordToo(t *testing.T) {
	first, n := mood(t, "auto", 0)
	second, m := mood(t, "from:"+first.Config.Out, time.Hour)
	third, l := mood(t, "from:"+second.Config.Out, time.Hour)
	if n == 0 || m != n || l != n {
		t.Errorf("the kernel is on %d, %d and %d sites", n, m, l)
	}
	_, want := result(t, first.Config.Out)
	if _, weights := result(t, third.Config.Out); !bytes.Equal(weights, want) {
		t.Error("the weights differ")
	}
}
