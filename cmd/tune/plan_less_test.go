package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// lookedFor returns the plan of a run of a tiny model, without kernels, on a machine with so
// much memory, after looking for a smaller run.
func lookedFor(t *testing.T, dir string, available int64, c trainer.Config) *runPlan {
	t.Helper()
	mem := autograd.Heap{}
	m, err := models.Shape(dir, mem, models.LoadOptions{LoRA: c.LoRA})
	if err != nil {
		t.Fatal(err)
	}
	c.Model = dir
	p := &runPlan{Available: available, run: forecast.Run{Batch: c.Batch, Seq: c.Seq}}
	f, err := forecast.New(m, mem, p.run)
	if err != nil {
		t.Fatal(err)
	}
	p.Bytes = f.Bytes()
	plain := func(*models.Model) (*core.Report, error) { return &core.Report{}, nil }
	if err := p.lookForLess(&smaller{mem, c, plain}, m); err != nil {
		t.Fatal(err)
	}
	return p
}

func changes(p *runPlan) []string {
	var all []string
	for _, o := range p.Others {
		all = append(all, o.Change)
	}
	return all
}

// Nothing fits, so that everything is tried, and each change needs less than the one before
// it of its kind.
func TestEverythingIsTriedThatNeedsLess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	if err := writeModel(dir, "llama"); err != nil {
		t.Fatal(err)
	}
	p := lookedFor(t, dir, 1, trainer.Config{Batch: 2, Seq: 20})
	const small = " --gradient-checkpointing --batch 1 --grad-accum 2"
	want := []string{" --gradient-checkpointing", small,
		" --lora-rank 8", " --lora-rank 8 --gradient-checkpointing", " --lora-rank 8" + small,
		" --lora-rank 8 --base-int8", " --lora-rank 8 --base-int8 --gradient-checkpointing", " --lora-rank 8 --base-int8" +
			small}
	if got := changes(p); !slices.Equal(got, want) {
		t.Errorf("tried %q, want %q", got, want)
	}
	if !strings.Contains(p.remedy(), "nothing that was tried fits") {
		t.Errorf("remedy %q", p.remedy())
	}
	adapted := lookedFor(t, dir, 1, trainer.Config{Batch: 1, Seq: 64, LoRA: lora.Config{Rank: 4}})
	if got, want := changes(adapted), []string{" --gradient-checkpointing", " --base-int8",
		" --base-int8 --gradient-checkpointing"}; !slices.Equal(got, want) {
		t.Errorf("of a run with adapters: tried %q, want %q", got, want)
	}
}

// Two short batches keep more gradients than one spares activations.
func TestWhatNeedsMoreIsLeftOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	if err := writeModel(dir, "llama"); err != nil {
		t.Fatal(err)
	}
	p := lookedFor(t, dir, 1, trainer.Config{Batch: 2, Seq: 4})
	for _, o := range p.Others {
		if !strings.Contains(o.Change, "--lora-rank") && strings.Contains(o.Change, "--batch") {
			t.Errorf("%q, which needs %d bytes, is proposed for a run of %d", o.Change, o.Bytes, p.Bytes)
		}
	}
	if last := p.Others[len(p.Others)-1]; last.Bytes >= p.Bytes {
		t.Errorf("with%s, the run needs %d bytes of %d", last.Change, last.Bytes, p.Bytes)
	}
}

// Where smaller parts are enough, adapters are not proposed; where they are not, the first
// that fit are.
func TestTheFirstThatFitsIsProposed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	if err := writeModel(dir, "llama"); err != nil {
		t.Fatal(err)
	}
	c := trainer.Config{Batch: 2, Seq: 20}
	for _, o := range lookedFor(t, dir, 1, c).Others {
		p := lookedFor(t, dir, o.Bytes, c)
		last := p.Others[len(p.Others)-1]
		if !last.Fits || last.Bytes > o.Bytes || !strings.HasSuffix(p.remedy(), "it fits with"+last.Change) {
			t.Errorf("with %d bytes, which %q needs: %+v, %q", o.Bytes, o.Change, p.Others, p.remedy())
		}
		for _, other := range p.Others[:len(p.Others)-1] {
			if other.Fits {
				t.Errorf("%q fits, but the search went on", other.Change)
			}
		}
	}
}

// Without files of weights, nobody knows what adapters would be put on.
func TestAdaptersAreNotTriedWithoutWeights(t *testing.T) {
	full := smaller{mem: autograd.Heap{}, config: trainer.Config{Model: t.TempDir()}}
	m, err := models.New([]byte(tinyConfigs["llama"]), full.mem)
	if err != nil {
		t.Fatal(err)
	}
	p := &runPlan{Available: 1, Bytes: math.MaxInt64, run: forecast.Run{Batch: 1, Seq: 64}}
	if err := p.lookForLess(&full, m); err != nil {
		t.Fatal(err)
	}
	if got := changes(p); !slices.Equal(got, []string{" --gradient-checkpointing"}) {
		t.Errorf("tried %q", got)
	}
}

func TestMemoryThatIsMissingNamesFlags(t *testing.T) {
	mem, err := transport.NewMemory("tensors", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	_, full := mem.Alloc(2 << 20)
	c := (&app{}).trainCommand()
	for _, err := range []error{full, fmt.Errorf("hugepage: %w", syscall.ENOMEM)} {
		text := needLess(err).Error()
		if !strings.Contains(text, err.Error()) {
			t.Errorf("%q does not say %q", text, err)
		}
		flags := regexp.MustCompile(`--([a-z0-9-]+)`).FindAllStringSubmatch(text, -1)
		if len(flags) < 5 {
			t.Errorf("%q names %d flags", text, len(flags))
		}
		for _, f := range flags {
			if c.Flags.Lookup(f[1]) == nil {
				t.Errorf("train has no flag --%s", f[1])
			}
		}
	}
	if err := errors.New("another"); needLess(err) != err {
		t.Error("flags are named for another error")
	}
}
