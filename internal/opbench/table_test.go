package opbench

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/core"
)

func TestTable(t *testing.T) {
	row := func(op core.Op, shape, pass, side string, w core.Work, ns ...float64) Row {
		return Row{Kernel: "npu_fused_x", Op: op, Shape: shape, Pass: pass, Side: side, Work: w, ns: ns}.judged(limits)
	}
	norm, moe := core.Work{Bytes: 16 << 20}, core.Work{Bytes: 75 << 20, Products: 9.66e9}
	r := Result{CPU: "A processor", Rounds: 3, Ceilings: limits, Copies: 2,
		Rows: []Row{
			row(core.RMSNorm, "2048x1024", "forward", Plugin, norm, 1.25e6, 1e6, 1.5e6),
			row(core.RMSNorm, "2048x1024", "forward", Linked, norm, 1.2e6),
			row(core.RMSNorm, "2048x1024", "backward", Plugin, norm, 21e3),
			row(core.MoEExperts, "2048x512/384 32 experts top-4", "both", Plugin, moe, 123.4e6),
		},
		Skipped: []Skipped{{"npu_fused_x", core.RoPE, "", "no shapes are known for this op"},
			{"npu_fused_x", core.SwiGLU, "1x2", "odd"}}}
	compare(t, r.Table(), `
A processor, 2 threads; memory 20 GB/s, float32 products 200 GFLOP/s
medians of 3 rounds; above 100%: tensors in a cache, or factors of fewer bits

rms_norm 2048x1024 (npu_fused_x)
  pass      side            ms             p10 - p90            rate  ceiling
  forward   plugin        1.25           1.05 - 1.45       13.4 GB/s      67%
            linked        1.20           1.20 - 1.20       14.0 GB/s      70%
  backward  plugin       0.021         0.021 - 0.021        799 GB/s    3995%

moe_experts 2048x512/384 32 experts top-4 (npu_fused_x)
  pass      side            ms             p10 - p90            rate  ceiling
  both      plugin         123             123 - 123    78.3 GFLOP/s      39%

not measured
  npu_fused_x, rope: no shapes are known for this op
  npu_fused_x, swiglu 1x2: odd
WARNING: 2 tensors were copied to or from a plugin; the times include that
`)
}

func TestBoundaryTable(t *testing.T) {
	b := Boundary{CPU: "A processor", Threads: 2, Kernel: "npu_fused_rmsnorm",
		RoundTrips: []RoundTrip{{"across, after a pause of 1 ms", 10000, 24.7, 104}},
		Transfers: []Transfer{
			{Bytes: 4096, Rounds: 20, Linked: Stat{Median: 1.16}, Across: Stat{Median: 1.81},
				Difference: Stat{0.65, 0.4, 1.26}, Percent: 56},
			{Bytes: 64 << 20, Rounds: 20, Linked: Stat{Median: 12750}, Across: Stat{Median: 12640},
				Difference: Stat{-110, -1113, 852}, Percent: -0.86},
		}}
	compare(t, b.Table(), `
A processor, 2 threads

round trip of a call: rms_norm of 8 elements, as good as empty
  way                                   calls       p50 us       p99 us
  across, after a pause of 1 ms         10000         24.7          104

npu_fused_rmsnorm, forward: medians of rounds that alternate
  input     rounds   linked us   across us   differ us         p10 - p90  differ
  4 KiB         20        1.16        1.81       0.650      0.400 - 1.26   56.0%
  64 MiB        20       12750       12640        -110       -1113 - 852   -0.9%
`)
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for line := range strings.Lines(got) {
		if utf8.RuneCountInString(line) > 81 { // with its end
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}
