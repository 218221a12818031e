package main

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/bench"
)

func TestSlopeIsTheExponent(t *testing.T) {
	for _, tt := range []struct {
		name string
		x, y []float64
		want float64
	}{
		{"constant", []float64{1, 2, 4}, []float64{7, 7, 7}, 0},
		{"linear", []float64{64, 128, 256}, []float64{3, 6, 12}, 1},
		{"quadratic", []float64{2, 4, 16}, []float64{12, 48, 768}, 2},
		{"a root, by two points", []float64{1, 100}, []float64{5, 50}, 0.5},
		{"points beside the line", []float64{1, 2, 4}, []float64{1, 4, 4}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := slope(tt.x, tt.y); !(math.Abs(got-tt.want) <= 1e-12) {
				t.Errorf("slope %v, want %v", got, tt.want)
			}
		})
	}
	if got := slope([]float64{8}, []float64{3}); !math.IsNaN(got) {
		t.Errorf("slope %v of a single point, want NaN", got)
	}
}

// call is a call with that much work.
func call(bytes int64, products, elementwise float64) bench.Call {
	return bench.Call{Work: core.Work{Bytes: bytes, Products: products, Elementwise: elementwise}}
}

func TestFloorAddsTheRoofOfEveryCall(t *testing.T) {
	limits := ceiling.Ceilings{Bandwidth: 1e9, Products: 1e12}
	m := bench.Measured{Steps: make([]bench.Step, 2),
		KernelCalls: []bench.Call{call(1e6, 3e9, 1e9), call(2e6, 1e9, 0)}, // 4 ms of arithmetic, 2 ms of memory
		PlainCalls:  []bench.Call{call(5e6, 0, 0)},                        // 5 ms
		Update:      call(9e6, 0, 1e9)}                                    // 9 ms
	if got := floor(m, limits); !(math.Abs(got-10) <= 1e-9) {
		t.Errorf("%v ms for each of 2 steps, want 10", got)
	}
}

func TestRunsThatMeasureSomethingElseAreRefused(t *testing.T) {
	good := bench.Measured{Steps: make([]bench.Step, 1), PeakRSS: 1}
	if _, err := newPoint(8, good, ceiling.Ceilings{}); err != nil {
		t.Error(err)
	}
	fellBack, unknown := good, good
	fellBack.Fallbacks, unknown.PeakRSS = 3, 0
	for want, m := range map[string]bench.Measured{"in 3 calls": fellBack, "run this on Linux": unknown} {
		if _, err := newPoint(8, m, ceiling.Ceilings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

const mib = 1 << 20

// points grow linearly in their arithmetic, and with a square in what was measured.
func points() []point {
	var out []point
	for _, n := range []int{2, 4, 8} {
		out = append(out, point{size: n, ms: 3 * float64(n*n), floor: float64(n),
			bytes: int64(n*n+96) * mib, planned: int64(10*n) * mib, kernels: []string{"npu_a", "npu_b"}})
	}
	return out
}

func TestPredictionsAgreeWhereTheyAreAnchored(t *testing.T) {
	r, err := newReport(sweep{name: "layers"}, points())
	if err != nil {
		t.Fatal(err)
	}
	if r.scale != 24 || r.apart != 80 {
		t.Errorf("scale %v, want 192/8; %v MiB apart, want 100-20", r.scale, r.apart)
	}
	for _, tt := range []struct {
		name      string
		got, want []float64
	}{
		{"measured time", r.time.measured, []float64{12, 48, 192}},
		{"predicted time", r.time.predicted, []float64{48, 96, 192}},
		{"measured memory", r.memory.measured, []float64{20, 32, 80}},
		{"predicted memory", r.memory.predicted, []float64{20, 40, 80}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if m, p := r.time.slopes(); !(math.Abs(m-2) <= 1e-12) || !(math.Abs(p-1) <= 1e-12) {
		t.Errorf("slopes of time %v measured and %v predicted, want 2 and 1", m, p)
	}
}

func TestMemoryBelowTheConstantIsAnError(t *testing.T) {
	p := points()
	p[2].bytes = 70 * mib
	if _, err := newReport(sweep{name: "layers"}, p); err == nil || !strings.Contains(err.Error(), "layers 8") {
		t.Errorf("error %v, want one that names the size", err)
	}
}

func TestSlopesLeaveSmallSizesOut(t *testing.T) {
	c := curve{}
	for i, y := range []float64{5, 5, 8, 16, 32} {
		c.add(1<<i, y, 1)
	}
	if m, _ := c.slopes(); !(math.Abs(m-1) <= 1e-12) {
		t.Errorf("slope %v of the last three, want 1", m)
	}
}

func TestTableHasEverySizeAndTheSlopes(t *testing.T) {
	r, err := newReport(sweep{title: "Layers", axis: "layers"}, points())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Layers. Kernels: npu_a, npu_b.\n\n| layers | step ms | predicted ms | memory MiB | predicted MiB " +
			"|\n|---:|---:|---:|---:|---:|\n" +
			"| 2 | 12.0 | 48.0 | 20.0 | 20.0 |\n| 4 | 48.0 | 96.0 | 32.0 | 40.0 |\n| 8 | 192.0 | 192.0 | 80.0 | 80.0 |\n\n",
		"Time: slope 2.00 measured, 1.00 predicted. Memory: slope 1.00 measured, 1.00 predicted.",
		"times 24.00 ", "without 80 MiB",
	} {
		if got := r.table(); !strings.Contains(got, want) {
			t.Errorf("the table does not have %q:\n%s", want, got)
		}
	}
}

func TestASingleSizeHasNoSlope(t *testing.T) {
	r, err := newReport(sweep{title: "Layers", axis: "layers"}, points()[:1])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.table(), "Time: no slope of a single size. Memory: no slope of a single "+
		"size."; !strings.Contains(got, want) {
		t.Errorf("the table does not have %q:\n%s", want, got)
	}
}

func TestEverySweepMakesConfigsOfItsSizes(t *testing.T) {
	field := map[string]string{"seq": "max_position_embeddings", "layers": "num_hidden_layers", "experts": "num_experts"}
	all := sweeps(0)
	if len(all) != len(field) {
		t.Fatalf("%d sweeps, want %d", len(all), len(field))
	}
	for _, w := range all {
		for _, n := range w.sizes {
			o := w.options(n)
			config := map[string]any{}
			if err := json.Unmarshal(o.ModelJSON, &config); err != nil {
				t.Fatalf("%s %d: %v in %s", w.name, n, err, o.ModelJSON)
			}
			if config[field[w.name]] != float64(n) || bytes.Contains(o.ModelJSON, []byte("%!")) {
				t.Errorf("%s %d: %s", w.name, n, o.ModelJSON)
			}
			if limit := config["max_position_embeddings"].(float64); float64(o.Seq) != limit {
				t.Errorf("%s %d: rows of %d tokens, but positions for %v", w.name, n, o.Seq, limit)
			}
		}
	}
}

func TestPointsKeepsTheSmallestSizes(t *testing.T) {
	for points, want := range map[int][]int{0: {2, 4, 8, 16}, 2: {2, 4}, 9: {2, 4, 8, 16}} {
		if w := sweeps(points)[1]; w.name != "layers" || !slices.Equal(w.sizes, want) {
			t.Errorf("%d points: %s has %v, want layers with %v", points, w.name, w.sizes, want)
		}
	}
}
