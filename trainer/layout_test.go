package trainer_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// layouts are batches of the same five texts: in one row with padding, two by two, and one by one.
func layouts(t *testing.T) (all [][]data.Batch) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	store := data.NewStore()
	for i, n := range []int{9, 2, 17, 5, 12} {
		ids, learn := make([]int32, n), make([]bool, n)
		for k := range ids {
			ids[k], learn[k] = rng.Int32N(64), k >= i || k == n-1
		}
		if err := store.Add(ids, learn); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []struct{ seq, batch int }{{60, 1}, {20, 2}, {17, 1}} {
		p, err := data.NewPacked(store, size.seq, 0)
		if err != nil {
			t.Fatal(err)
		}
		if size.seq == 17 {
			p.Single([]int{0, 1, 2, 3, 4})
		} else {
			p.BestFit([]int{0, 1, 2, 3, 4})
		}
		batches, _ := data.Stream(p, size.batch)
		all = append(all, slices.Collect(batches))
	}
	return all
}

// TestTextsTeachTheSameHoweverTheyLie: no token sees another text, padding, or where in a row it stands, in any family,
// with kernels or without; and each counts the same, whatever its batch has beside it.
func TestTextsTeachTheSameHoweverTheyLie(t *testing.T) {
	mem, reg := plugintest.Memory(t), plugintest.Scan(t, transport.Options{})
	for _, f := range models.Families() {
		config := f.Small()
		config["vocab_size"] = 64
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, kernels := range []string{"none", "all"} {
			t.Run(f.Type+" "+kernels, func(t *testing.T) {
				var want taught
				for i, batches := range layouts(t) {
					got := teach(t, text, mem, reg, kernels, batches)
					if i == 0 {
						want = got
						continue
					}
					got.same(t, want)
				}
			})
		}
	}
}

// taught is what a step of some batches computes.
type taught struct {
	trainer.StepResult
	gradients map[string][]float32
}

// teach steps once, changing nothing.
func teach(t *testing.T, config []byte, mem core.Memory, reg *core.Registry, kernels string, batches []data.Batch) taught {
	t.Helper()
	m, err := models.New(config, mem)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	m.Init(1)
	if _, err := core.ApplyDefaultKernels(t.Context(), m, reg, kernels); err != nil {
		t.Fatal(err)
	}
	e, err := trainer.NewEngine(m, mem, trainer.EngineConfig{Batch: batches[0].B, Seq: batches[0].S, Accumulate: len(batches),
		Lengths: []int{8, 12}, Optim: optim.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got := taught{gradients: map[string][]float32{}}
	if got.StepResult, err = e.Step(t.Context(), batches, 0); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Trainable() {
		got.gradients[p.Name] = slices.Clone(e.Program().Gradient(p))
	}
	return got
}

// same compares the loss and every gradient with its largest element, or where that is 0 but for rounding, as of a bias
// of keys that have no positions, with a thousandth of the largest of all.
func (got taught) same(t *testing.T, want taught) {
	t.Helper()
	if got.Targets != want.Targets || !(math.Abs(got.Loss-want.Loss) <= rounding*want.Loss) {
		t.Errorf("loss %.9g of %d tokens, want %.9g of %d", got.Loss, got.Targets, want.Loss, want.Targets)
	}
	largest := float32(0)
	for _, g := range want.gradients {
		largest = max(largest, slices.Max(g), -slices.Min(g))
	}
	for name, w := range want.gradients {
		scale, off := max(largest/1000, slices.Max(w), -slices.Min(w)), 0.0
		for i, v := range w {
			off = max(off, math.Abs(float64(got.gradients[name][i]-v)))
		}
		if !(off <= rounding*float64(scale)) {
			t.Errorf("the gradient of %s differs by %.2g, its largest element is %.2g", name, off, scale)
		}
	}
}
