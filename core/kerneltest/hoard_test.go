package kerneltest_test

import (
	"context"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// hoarder is a kernel in a process that grows by what it keeps of a call.
type hoarder struct {
	core.Kernel
	memory int64
	keeps  func(c *core.Call) int64 // how much memory there is after a call
}

func (h *hoarder) Info() core.Info {
	i := h.Kernel.Info()
	i.Keeps = true
	return i
}

func (h *hoarder) Forward(ctx context.Context, c *core.Call) error {
	h.memory = h.keeps(c)
	return h.Kernel.Forward(ctx, c)
}

func (h *hoarder) Holdings() (kerneltest.Holdings, error) {
	return kerneltest.Holdings{Memory: h.memory}, nil
}

// fewUses are as many as it takes to tell them apart, in little time.
func fewUses(f core.Facts) bool {
	return f.Frozen && !f.Bias && f.Rank == 0 && f.Products == core.InvalidDType && f.WeightDType != core.Int8 &&
		f.DType == core.Float32 && (f.WeightDType == f.DType || f.WeightDType == core.NF4)
}

// TestWhatIsKeptOfDataIsFound: each of these gives nothing back, but to a call again and again.
func TestWhatIsKeptOfDataIsFound(t *testing.T) {
	grows := func(by func(c *core.Call) int) func(c *core.Call) int64 {
		all := int64(0)
		return func(c *core.Call) int64 { all += int64(by(c)); return all }
	}
	when := func(is func(c *core.Call) bool, size int) func(c *core.Call) int64 {
		return grows(func(c *core.Call) int {
			if is(c) {
				return size
			}
			return 0
		})
	}
	seen := map[uint32]bool{}
	for name, tt := range map[string]struct {
		keeps func(c *core.Call) int64
		want  kerneltest.Status
	}{
		"nothing": {when(func(c *core.Call) bool { return false }, 0), kerneltest.OK},
		"a copy of each weight, by its checksum": {grows(func(c *core.Call) int {
			w := c.Input("weight")
			if sum := crc32.ChecksumIEEE(w.Data); !seen[sum] {
				seen[sum] = true
				return len(w.Data)
			}
			return 0
		}), kerneltest.Failed},
		"a buffer of each call of many tokens": {when(func(c *core.Call) bool { return c.Tokens() > 512 }, 16<<10),
			kerneltest.Failed},
		"something of each call of one token": {when(func(c *core.Call) bool { return c.Tokens() == 1 }, 4096),
			kerneltest.Failed},
		"widened weights of NF4": {grows(func(c *core.Call) int {
			if c.Facts.WeightDType == core.NF4 {
				return 4 * c.Facts.Dim * c.Facts.Out
			}
			return 0
		}), kerneltest.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &hoarder{Kernel: choosy{reference.Single(core.Linear), fewUses}, keeps: tt.keeps}
			if r := kerneltest.OtherData(t.Context(), k, core.Float32); r.Status != tt.want {
				t.Errorf("%s, want %s: %v %s", r.Status, tt.want, r.Err(), r.Reason)
			}
		})
	}
}

// TestBuffersForEverySizeAreFound: of calls with one number of tokens there is one buffer, however many they are.
func TestBuffersForEverySizeAreFound(t *testing.T) {
	kept, all, largest := map[int]bool{}, int64(0), int64(0)
	buffers := func(size int64) func(c *core.Call) int64 {
		clear(kept)
		all = 0
		return func(c *core.Call) int64 {
			if !kept[c.Tokens()] {
				all += size * int64(c.Tokens())
			}
			kept[c.Tokens()] = true
			return all
		}
	}
	for name, tt := range map[string]struct {
		keeps func() func(c *core.Call) int64
		want  kerneltest.Status
	}{
		"a buffer for each":    {func() func(c *core.Call) int64 { return buffers(200) }, kerneltest.Failed},
		"a few bytes for each": {func() func(c *core.Call) int64 { return buffers(1) }, kerneltest.OK},
		"a buffer for the largest": {func() func(c *core.Call) int64 {
			return func(c *core.Call) int64 { largest = max(largest, 1<<20*int64(c.Tokens())); return largest }
		}, kerneltest.OK},
	} {
		k := &hoarder{Kernel: reference.Single(core.SwiGLU), keeps: tt.keeps()}
		r := kerneltest.ManySizes(t.Context(), k, facts[core.SwiGLU])
		if r.Status != tt.want || tt.want == kerneltest.Failed &&
			!strings.Contains(r.Err().Error(), "bytes with each number of tokens that it has not met, limit 8192") {
			t.Errorf("%s: %s, %v", name, r.Status, r.Err())
		}
	}
}

// TestWhatIsKeptBeyondTheAllowanceIsFound: a kernel that keeps by number, as it should, but never forgets.
func TestWhatIsKeptBeyondTheAllowanceIsFound(t *testing.T) {
	const allowed = 1 << 20
	for name, tt := range map[string]struct {
		most int64
		want kerneltest.Status
	}{
		"all":                    {1 << 40, kerneltest.Failed},
		"four times what it may": {4 * allowed, kerneltest.Failed},
		"what is allowed":        {allowed, kerneltest.OK},
		"with its garbage":       {2 * allowed, kerneltest.OK},
	} {
		var all int64
		seen := map[uint64]bool{0: true}
		k := &hoarder{Kernel: reference.Single(core.Linear), keeps: func(c *core.Call) int64 {
			if w := c.Input("weight"); !seen[w.Content] && all+int64(len(w.Data)) <= tt.most {
				all += int64(len(w.Data))
				seen[w.Content] = true
			}
			return all
		}}
		r := kerneltest.KeptWithin(t.Context(), k, contentFacts(), allowed)
		if r.Status != tt.want || tt.want == kerneltest.Failed && !strings.Contains(r.Err().Error(), "TUNE_KEEP says") {
			t.Errorf("%s: %s, %v", name, r.Status, r.Err())
		}
	}
}
