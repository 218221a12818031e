package forecast_test

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

func TestRoomIsWhatTheRunLeavesOrIsAllowed(t *testing.T) {
	for _, tt := range []struct{ free, rest, most, want int64 }{
		{100, 40, 0, 30},
		{100, 40, 50, 50},
		{100, 40, 70, 60},
		{100, 40, -1, 0},
		{100, 140, 50, 0},
		{0, 40, 50, 50},
		{0, 40, 0, math.MaxInt64},
		{0, 40, -1, 0},
	} {
		if got := forecast.Room(tt.free, tt.rest, tt.most); got != tt.want {
			t.Errorf("Room(%d, %d, %d) = %d, want %d", tt.free, tt.rest, tt.most, got, tt.want)
		}
	}
}

// keeping is the reference of linear, which says that it keeps something, or not.
type keeping struct {
	core.Kernel
	keeps bool
}

func (k keeping) Info() core.Info {
	i := k.Kernel.Info()
	i.Keeps = k.keeps
	return i
}

// adapted is a model whose 7 linear layers in each of 3 blocks have adapters, with a kernel at each site of the op.
func adapted(t *testing.T, op core.Op, keeps bool) *models.Model {
	t.Helper()
	m, err := models.NewWith([]byte(config), autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Rank: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	reg := core.NewRegistry()
	if err := reg.Register(keeping{reference.Kernel(op), keeps}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all"); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWhatKernelsKeepIsForecast: panels in both directions of the layers and the head, not of the embedding.
func TestWhatKernelsKeepIsForecast(t *testing.T) {
	both := func(m, n int) int64 {
		return vector.KeptBytes(m, n, core.Float32) + vector.KeptBytes(n, m, core.Float32)
	}
	layer, head := both(32, 32), both(50, 32)
	for _, tt := range []struct {
		name       string
		op         core.Op
		keeps      bool
		free, most int64
		want       int64
	}{
		{"all", core.Linear, true, 1 << 40, 0, 3*(4*layer+3*both(32, 64)) + head},
		{"within a larger site", core.LinearCrossEntropy, true, 1 << 40, 0, head},
		{"what is allowed", core.Linear, true, 1 << 40, 2*layer + 1, 2 * layer},
		{"nothing is allowed", core.Linear, true, 1 << 40, -1, 0},
		{"no memory is left", core.Linear, true, 1, 0, 0},
		{"no kernel keeps", core.Linear, false, 1 << 40, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := forecastOf(t, adapted(t, tt.op, tt.keeps), forecast.Run{Batch: 2, Seq: 16, Free: tt.free, MaxKept: tt.most})
			var got int64
			for _, p := range f.Memory {
				if p.Name == forecast.KeptPart {
					got = p.Bytes
				}
			}
			if got != tt.want {
				t.Errorf("%d bytes, want %d", got, tt.want)
			}
		})
	}
}

// TestOnlyTokensThatCountHaveLogits, in the kernel of a frozen head.
func TestOnlyTokensThatCountHaveLogits(t *testing.T) {
	m, err := models.NewWith([]byte(config), autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Rank: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	reg := core.NewRegistry()
	if err := reg.Register(reference.Kernel(core.LinearCrossEntropy)); err != nil {
		t.Fatal(err)
	}
	if _, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all"); err != nil {
		t.Fatal(err)
	}
	for counted, tokens := range map[int]int{0: 32, 1: 1, 10: 10, 100: 32} {
		const token = 4 * (50 + 2*32) // its logits, its x and the gradient of that
		f := forecastOf(t, m, forecast.Run{Batch: 2, Seq: 16, Counted: counted})
		if got := part(t, f, "scratch"); got != token*tokens {
			t.Errorf("%d tokens count: %d bytes, want those of %d", counted, got, tokens)
		}
	}
}
