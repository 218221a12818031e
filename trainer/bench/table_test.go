package bench

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ceiling"
)

// sample is a result whose figures are easy to follow: ten steps of each variant.
func sample() *Result {
	call := func(op, kernel, pass string, ms float64, work core.Work, ceiling float64) Call {
		return Call{Op: op, Kernel: kernel, Pass: pass, Calls: 20, MS: ms, Work: work, OfCeiling: ceiling}
	}
	steps := func(ms float64) []Step {
		s := make([]Step, 10)
		for i := range s {
			s[i] = Step{Whole: ms, Forward: 0.3 * ms, Backward: 0.6 * ms, Optimizer: 0.1 * ms}
		}
		return s
	}
	limits := ceiling.Ceilings{Threads: 2, Bandwidth: 2e10, Products: 2.5e11, Bandwidth1: 1e10, Products1: 1.25e11}
	return &Result{
		Machine: Machine{"AMD EPYC", 2, "linux", "amd64", "go1.26", limits},
		Config:  Config{ModelType: "llama", Parameters: 596_000_000, Batch: 4, Seq: 256, Steps: 10, Seed: 9},
		Floor:   Floor{Products: 2e11, Bytes: 2e9, Rate: 2.5e11, Bandwidth: 2e10, MS: 900},
		Runs: []Measured{
			{Kernels: "none", Threads: 2, Step: Spread{2000, 1900, 2100}, Forward: Spread{Median: 600},
				Backward:  Spread{Median: 1200},
				Optimizer: Spread{Median: 199}, Tokens: 512, OverFloor: 2000. / 900,
				Memory: Memory{1 << 30, 2 << 30, 2 << 30, 0, 5 << 30}, PeakRSS: 6 << 30, Steps: steps(2000),
				PlainCalls: []Call{call("linear", "", "forward", 6000, core.Work{Bytes: 1e9, Products: 1.2e12}, 0.8),
					call("linear", "", "backward", 12000, core.Work{Bytes: 2e9, Products: 2.4e12}, 0.8),
					call("permute", "", "forward", 3, core.Work{Bytes: 1e6}, 0.1)},
				Update:   call("adamw", "", "update", 1980, core.Work{Bytes: 2e10}, 0.5),
				Products: Products{3.6e11, 0.9, 2e11, 0.8}},
			{Kernels: "auto", Threads: 2, Step: Spread{1000, 900, 1100}, OverFloor: 1000. / 900,
				Speedup: Spread{2, 1.9, 2.125}, SpeedupInterval: &Interval{1.95, 2.1, 0.97},
				Memory: Memory{Total: 3 << 30}, Steps: steps(1000), Boundary: Boundary{WaitedMS: 105, BusyMS: 100},
				KernelCalls: []Call{call("rms_norm", "npu_fused_rmsnorm", "backward", 70, core.Work{Bytes: 7e8}, 0.5)},
				PlainCalls:  []Call{call("linear", "", "backward", 900, core.Work{Bytes: 1e9, Products: 1.8e11}, 0.8)}},
			{Kernels: "npu_fused_rmsnorm,npu_fused_rope", Step: Spread{4000, 3900, 4100}, Forward: Spread{Median: 1300},
				Backward: Spread{Median: 2600}, Optimizer: Spread{Median: 99},
				Speedup:         Spread{0.5, 0.45, 0.55},
				SpeedupInterval: &Interval{0.48, 0.53, 0.97}, Steps: steps(4000), Fallbacks: 3},
			{Kernels: "all", Step: Spread{2000, 1900, 2100}, Speedup: Spread{1.01, 0.97, 1.05},
				SpeedupInterval: &Interval{0.98, 1.03, 0.97}, Steps: steps(2000)},
		},
	}
}

func TestTableSaysPlainlyWhatIsSlower(t *testing.T) {
	got := sample().Table()
	for _, want := range []string{
		"llama, 596M parameters, batch 4 x 256 tokens, 10 steps, 2 threads\nAMD EPYC, 2 cores, linux/amd64, go1.26\n",
		"ceilings: memory 20.0 GB/s and products 250 GFLOP/s with 2 threads,\n          10.0 GB/s and 125 GFLOP/s with " +
			"one\n",
		"median ms               step /floor    p10    p90 forward backward optim.  tok/s\n",
		"none                    2000   2.22   1900   2100     600     1200    199    512\n",
		"floor of a step: 900 ms: 800 for 200 GFLOP of products at 250 GFLOP/s,\n                 100 for 2.00 GB of the " +
			"optimizer at 20.0 GB/s\n",
		"none                        1 GiB      2 GiB        2 GiB     5 GiB     6 GiB\n",
		"auto               2.000 x  1.950 to 2.100  1.900 to 2.125  faster\n",
		"npu_fused_rmsno... 0.500 x  0.480 to 0.530  0.450 to 0.550  SLOWER\n",
		"all                1.010 x  0.980 to 1.030  0.970 to 1.050  no clear difference\n",
		"linear                        backward      2    1200   60%  200 GFLOP/s     80%\n",
		"adamw                         update        2     198  9.9%    10.1 GB/s     50%\n",
		"others (1)                                  2   0.300  0.0%\n",
		"outside of these                                 1.70  0.1%\n",
		"rms_norm (npu_fused_rmsnorm)  backward      2    7.00  0.7%    10.0 GB/s     50%\n",
		"matrix products: 360 GFLOP, 90% of the step, 200 GFLOP/s, 80% of the ceiling\n",
		"boundary to the plugins: 0.500 ms a step, 0.05% of it\n",
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
		if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
			t.Errorf("spaces at the end of %q", line)
		}
	}
}

func TestTooFewRoundsAreSaidToBeTooFew(t *testing.T) {
	r := sample()
	for i := range r.Runs {
		r.Runs[i].Steps, r.Runs[i].SpeedupInterval = r.Runs[i].Steps[:5], nil
	}
	got := r.Table()
	for _, want := range []string{"2.000 x  -               1.900 to 2.125  too few rounds\n",
		"A 95% interval takes 6 steps of each variant or more.\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
}

func TestUnknownSizesAreADash(t *testing.T) {
	for n, want := range map[int64]string{0: "-", 1024: "1 KiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}
