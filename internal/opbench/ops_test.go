package opbench

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/plugins/linked"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

var limits = ceiling.Ceilings{Threads: 2, Bandwidth: 20e9, Products: 200e9}

// TestPluginsAreMeasuredBesideTheirLinkedTwins runs every kernel of the project across
// the boundary, without a copy.
func TestPluginsAreMeasuredBesideTheirLinkedTwins(t *testing.T) {
	reg := plugintest.Scan(t, transport.Options{Strict: true})
	r, err := Run(t.Context(), Options{Kernels: reg.Kernels(), Linked: linked.Kernels(), Memory: plugintest.Memory(t),
		Tokens: []int{3}, Rounds: 2, Ceilings: limits})
	if err != nil {
		t.Fatal(err)
	}
	if r.Copies != 0 || len(r.Skipped) != 0 {
		t.Errorf("%d copies, skipped %v", r.Copies, r.Skipped)
	}
	for _, k := range reg.Kernels() {
		var got []string
		first := uses(k.Info().Op, core.Float32, []int{3})[0]
		for _, row := range r.Rows {
			if row.Op == first.Op && row.Facts == first.Facts {
				got = append(got, row.Pass+" "+row.Side)
			}
		}
		want := []string{"forward plugin", "forward linked", "backward plugin", "backward linked", "both plugin",
			"both linked"}
		if len(k.Info().Op.Passes()) == 1 {
			want = want[:2]
		}
		if first.lossToo {
			want = want[:4]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", k.Info().Op, got, want)
		}
	}
	for _, row := range r.Rows {
		if row.MS.Median <= 0 || row.GBs <= 0 || row.CeilingPercent <= 0 || row.Calls < 1 || len(row.ns) != 2 {
			t.Errorf("%s %s %s: %+v", row.Op, row.Pass, row.Side, row)
		}
	}
}

// onlyRounded multiplies factors in bfloat16 alone.
type onlyRounded struct{ core.Kernel }

func (k onlyRounded) Supports(f core.Facts) error {
	if f.Products == core.InvalidDType {
		return core.ErrNotSupported
	}
	return k.Kernel.Supports(f)
}

func TestRoundedProductsAreMeasuredOfKernelsThatHaveThem(t *testing.T) {
	for _, tt := range []struct {
		kernel          core.Kernel
		stored, rounded int
	}{
		{reference.Single(core.RMSNorm), 4, 0},
		{reference.Single(core.Linear), 4, 4},
		{onlyRounded{reference.Single(core.Linear)}, 0, 4},
	} {
		n := map[core.DType]int{}
		for _, u := range usesOf(tt.kernel, core.Float32, nil) {
			n[u.Facts.Products]++
		}
		if n[core.InvalidDType] != tt.stored || n[core.BFloat16] != tt.rounded {
			t.Errorf("%s: %v, want %d as stored and %d rounded", tt.kernel.Info().Op, n, tt.stored, tt.rounded)
		}
	}
}

func TestEveryOpHasShapes(t *testing.T) {
	for _, op := range core.Ops() {
		all := uses(op, core.Float32, nil)
		if len(all) == 0 {
			t.Errorf("%s has none", op)
		}
		for _, u := range all {
			if err := u.Facts.Validate(op); err != nil {
				t.Errorf("%s %s: %v", op, u.shape, err)
			}
		}
	}
}

// TestAttentionIsCausal: three tokens see six keys. The reference stands for a plugin.
func TestAttentionIsCausal(t *testing.T) {
	r, err := Run(t.Context(), Options{Kernels: []core.Kernel{reference.Single(core.Attention)},
		Memory: plugintest.Memory(t),
		Tokens: []int{3}, Rounds: 1, Ceilings: limits})
	if err != nil || len(r.Rows) != 6 {
		t.Fatalf("%d rows, %v; want three passes of two shapes", len(r.Rows), err)
	}
	if got, want := r.Rows[0].Products, 6.0*4*16*64; got != want {
		t.Errorf("%s: %g operations, want %g", r.Rows[0].Pass, got, want)
	}
}

func TestEveryTokenHasALabel(t *testing.T) {
	labels := core.NewTensor(core.Int32, 3)
	copy(labels.Int32s(), []int32{7, -100, 0})
	uses(core.LinearCrossEntropy, core.Float32, nil)[0].Edit(map[string][]core.Tensor{"labels": {labels}})
	if want := []int32{7, 0, 0}; !slices.Equal(labels.Int32s(), want) {
		t.Errorf("labels %v, want %v", labels.Int32s(), want)
	}
}

func TestEveryLinkedKernelHasShapesThatItSupports(t *testing.T) {
	for _, k := range linked.Kernels() {
		all := uses(k.Info().Op, core.BFloat16, []int{1, 5})
		if len(all) == 0 {
			t.Errorf("%s has no entry", k.Info().Op)
		}
		for _, u := range all {
			if err := k.Supports(u.Facts); err != nil {
				t.Errorf("%s %s: %v", u.Op, u.shape, err)
			}
		}
	}
}

func TestRowsAreJudgedByTheCeilingThatApplies(t *testing.T) {
	for _, tt := range []struct {
		name    string
		work    core.Work
		bound   string
		percent float64
		rate    string
	}{
		{"memory", core.Work{Bytes: 20e6, Products: 1e6}, "memory", 50, "10.0 GB/s"},
		{"products", core.Work{Bytes: 1e6, Products: 100e6}, "compute", 25, "50.0 GFLOP/s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Row{Work: tt.work, ns: []float64{1e6, 2e6, 9e6}}.judged(limits)
			if r.MS.Median != 2 || r.Bound != tt.bound || !(math.Abs(r.CeilingPercent-tt.percent) <= 1e-6) ||
				r.rate() != tt.rate {
				t.Errorf("median %g ms, bound by %s, %g%%, %s; want 2 ms, %s, %g%%, %s",
					r.MS.Median, r.Bound, r.CeilingPercent, r.rate(), tt.bound, tt.percent, tt.rate)
			}
		})
	}
}

// picky supports nothing.
type picky struct{ core.Kernel }

func (picky) Supports(core.Facts) error {
	return errors.Join(core.ErrNotSupported, errors.New("too picky"))
}

func TestWhatIsNotSupportedIsListed(t *testing.T) {
	k := picky{reference.Single(core.RoPE)} // which has one shape
	r, err := Run(t.Context(), Options{Kernels: []core.Kernel{k}, Tokens: []int{1}, Rounds: 1})
	if err != nil || len(r.Rows) != 0 || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "too picky") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunStops(t *testing.T) {
	if _, err := Run(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "0 rounds") {
		t.Errorf("no rounds: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Options{Kernels: linked.Kernels(), Memory: plugintest.Memory(t), Tokens: []int{1}, Rounds: 1})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), linked.Kernels()[0].Info().Name) {
		t.Errorf("error %v, want that of the context, with the kernel's name", err)
	}
}

func TestGoFormatHasALineForEachRound(t *testing.T) {
	r := Result{CPU: "a processor", Ceilings: limits, Rows: []Row{
		{Kernel: "k", Op: core.MoEExperts, Shape: "8x512/384 32 experts top-4", Pass: "both", Side: Plugin, Calls: 3,
			Work: core.Work{Bytes: 4000, Products: 9000}, ns: []float64{1000, 3000}},
	}}
	want := regexp.MustCompile(`^goos: \w+\ngoarch: \w+\ncpu: a processor\n` +
		`BenchmarkKernel/kernel=k/op=moe_experts/shape=8x512:384_32_experts_top4` +
		`/pass=both/side=plugin-2\t3\t1000.0 ns/op\t4000.00 MB/s\t9.000 GFLOP/s\n` +
		`BenchmarkKernel/\S+-2\t3\t3000.0 ns/op\t1333.33 MB/s\t3.000 GFLOP/s\n$`)
	if got := r.GoBench(); !want.MatchString(got) {
		t.Errorf("not as benchstat reads it:\n%s", got)
	}
}
