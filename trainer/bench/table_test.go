package bench

import (
	"strings"
	"testing"
	"time"
)

func TestTableSaysPlainlyWhatIsSlower(t *testing.T) {
	call := func(op, kernel, pass string, ms float64) Call { return Call{op, kernel, pass, 20, ms} }
	r := &Result{
		Machine: Machine{"AMD EPYC", 2, "linux", "amd64", "go1.26"},
		Config:  Config{ModelType: "llama", Parameters: 596_000_000, Batch: 4, Seq: 256, Steps: 10},
		Runs: []Measured{
			{Kernels: "none", Threads: 2, Step: Spread{2000, 1900, 2100}, Tokens: 512, Memory: Memory{Total: 5 << 30}, PeakRSS: 6 << 30,
				PlainCalls: []Call{call("linear", "", "forward", 6000), call("linear", "", "backward", 12000)}},
			{Kernels: "auto", Threads: 2, Step: Spread{1000, 900, 1100}, Speedup: Spread{2, 1.9, 2.125}, Memory: Memory{Total: 3 << 30},
				KernelCalls: []Call{call("rms_norm", "npu_fused_rmsnorm", "forward", 30), call("rms_norm", "npu_fused_rmsnorm", "backward", 70)},
				PlainCalls:  []Call{call("linear", "", "backward", 900)}},
			{Kernels: "npu_fused_rmsnorm,npu_fused_rope", Step: Spread{4000, 3900, 4100}, Speedup: Spread{0.5, 0.45, 0.55}, Fallbacks: 3},
			{Kernels: "all", Step: Spread{2000, 1900, 2100}, Speedup: Spread{1.01, 0.97, 1.05}},
		},
	}
	got := r.Table()
	for _, want := range []string{
		"llama, 596M parameters, batch 4 x 256 tokens, 10 steps, 2 threads\nAMD EPYC, 2 cores, linux/amd64, go1.26\n",
		"none                   2000.00     0.00     0.00    0.00      512      5G     6G\n",
		"auto                  2.000 x  (1.900 to 2.125)  faster\n",
		"npu_fused_rmsnorm,... 0.500 x  (0.450 to 0.550)  SLOWER\n",
		"all                   1.010 x  (0.970 to 1.050)  no clear difference\n",
		"linear                                             4    600.00   1200.00 100.0%\n",
		"rms_norm (npu_fused_rmsnorm)                       4      3.00      7.00  10.0%\n",
		"WARNING: the reference stood in for a kernel in 3 calls\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

func TestSpeedupPairsTheStepsOfARound(t *testing.T) {
	first := &variant{whole: []time.Duration{100, 300, 200}}
	v := &variant{whole: []time.Duration{50, 150, 400}} // twice as fast but for the last round
	if got := v.speedup(first); got.Median != 2 || !(got.P10 < 2) {
		t.Errorf("%v, want a median of 2 and a lower p10", got)
	}
}

func TestSpreadInterpolates(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   Spread
	}{
		{"one value", []float64{3}, Spread{3, 3, 3}},
		{"two values", []float64{20, 10}, Spread{15, 11, 19}},
		{"an odd number", []float64{5, 1, 4, 2, 3}, Spread{3, 1.4, 4.6}},
		{"eleven values", []float64{10, 0, 1, 9, 2, 8, 3, 7, 4, 6, 5}, Spread{5, 1, 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := spread(tt.values)
			for _, d := range []float64{got.Median - tt.want.Median, got.P10 - tt.want.P10, got.P90 - tt.want.P90} {
				if d > 1e-12 || d < -1e-12 {
					t.Errorf("%v, want %v", got, tt.want)
				}
			}
		})
	}
}

func TestSizesHaveThreeDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "-", 1023: "0.999K", 1024: "1K", 5<<30 + 1<<28: "5.25G"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{999: "999", 1000: "1K", 596_049_920: "596M", 30_500_000_000: "30.5B"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}
