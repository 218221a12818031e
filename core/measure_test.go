package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
)

func TestWorthIsFasterOrMuchSmaller(t *testing.T) {
	const ms, mib = time.Millisecond, 1 << 20
	tests := []struct {
		name                string
		plain, kernel       time.Duration
		doubt               float64
		plainMiB, kernelMiB int
		want, settled       bool
	}{
		{"twice as fast", 2 * ms, ms, 0, 0, 0, true, true},
		{"as fast", ms, ms, 0, 0, 0, false, true},
		{"faster within the noise", 100 * ms, 98 * ms, 0, 0, 0, false, true},
		{"faster beyond the noise", 100 * ms, 96 * ms, 0, 0, 0, true, true},
		{"faster within the doubt", 100 * ms, 92 * ms, 0.1, 0, 0, false, false},
		{"faster, by how much is in doubt", 100 * ms, 92 * ms, 0.06, 0, 0, true, false},
		{"faster beyond the doubt", 100 * ms, 70 * ms, 0.1, 0, 0, true, true},
		{"slower within the doubt", 100 * ms, 104 * ms, 0.1, 0, 0, false, false},
		{"slower beyond the doubt", 100 * ms, 110 * ms, 0.1, 0, 0, false, true},
		{"faster and larger", 2 * ms, ms, 0, 10, 100, true, true},
		{"as fast with half the memory", ms, ms, 0, 100, 50, true, true},
		{"as fast, perhaps, with half the memory", 100 * ms, 100 * ms, 0.02, 100, 50, true, false},
		{"as fast, or slower beyond the noise, with half the memory", 100 * ms, 100 * ms, 0.04, 100, 50, false, false},
		{"as fast with more than half the memory", ms, ms, 0, 100, 51, false, true},
		{"as fast with half of little memory", ms, ms, 0, 32, 16, false, true},
		{"hardly slower with half the memory", 200 * ms, 201 * ms, 0, 100, 50, true, true},
		{"slower with half the memory", 100 * ms, 102 * ms, 0, 100, 50, false, true},
		{"not timed, with half the memory", 0, 0, 0, 100, 50, true, true},
		{"not timed, with as much memory", 0, 0, 0, 100, 100, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := core.Measurement{Plain: tt.plain, Kernel: tt.kernel, Doubt: tt.doubt, PlainBytes: tt.plainMiB * mib,
				KernelBytes: tt.kernelMiB * mib}
			if worth, settled := m.Worth(), m.Settled(); worth != tt.want || settled != tt.settled {
				t.Errorf("worth: %v, settled: %v; want %v and %v", worth, settled, tt.want, tt.settled)
			}
		})
	}
}

func TestFiguresHaveAboutThreeDigits(t *testing.T) {
	tests := map[string]core.Measurement{
		"0.0123 ms against 0.246 ms plain, 8 tokens": {Kernel: 12300, Plain: 246000, Tokens: 8},
		"0.0123 ms against 0.246 ms plain, 1 token":  {Kernel: 12300, Plain: 246000, Tokens: 1},
		"1.31 ms against 1234 ms plain, 8 tokens": {Kernel: 1310 * time.Microsecond,
			Plain: 1234 * time.Millisecond, Tokens: 8},
		"1.00 ms against 1.00 ms plain, 8 tokens, 1 MiB against 64 MiB": {Kernel: 1e6, Plain: 1e6, Tokens: 8,
			KernelBytes: 1 << 20, PlainBytes: 64 << 20},
	}
	for want, m := range tests {
		if got := m.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// measured returns the option with a fake machine on which the kernels take what the
// facts' dim says, in milliseconds, and the plain forward takes ten.
func measured(asked *[]string) core.Option {
	return core.Measured(func(_ context.Context, s core.Site, k core.Kernel) (core.Measurement, error) {
		*asked = append(*asked, k.Info().Name+" on "+s.Path)
		if s.Facts.Dim == 13 {
			return core.Measurement{}, errors.New("the plugin died")
		}
		return core.Measurement{Plain: 10 * time.Millisecond, Kernel: time.Duration(s.Facts.Dim) * time.Millisecond,
			Tokens: 1024}, nil
	})
}

func TestAutoTakesWhatIsFasterHere(t *testing.T) {
	m := newModel(core.RMSNorm, core.RMSNorm, core.RMSNorm, core.RMSNorm, core.SwiGLU)
	m[0].Facts.Dim, m[1].Facts.Dim, m[2].Facts.Dim, m[3].Facts.Dim = 5, 20, 10, 13
	var asked []string
	p, err := plan(t, m, newRegistry(t, newKernel("norm", core.RMSNorm)), "auto", measured(&asked))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"norm",
		"plain: norm is slower: 20.0 ms against 10.0 ms plain, 1024 tokens",
		"plain: norm is no faster: 10.0 ms against 10.0 ms plain, 1024 tokens",
		"plain: norm: not measured: the plugin died",
		"plain: no kernel offers swiglu",
	}
	if got := planned(p); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for i, a := range p.Actions {
		if has := a.Measured != nil; has != (i < 3) {
			t.Errorf("site %d: measured is %v", i, a.Measured)
		}
	}
}

// slowModel is a model that says how to measure, and always that a kernel is slower.
type slowModel struct{ fakeModel }

func (slowModel) Measure(*core.Registry, bool) core.Measure {
	return func(context.Context, core.Site, core.Kernel) (core.Measurement, error) {
		return core.Measurement{Plain: 1, Kernel: 2}, nil
	}
}

// TestAutoMeasuresAsTheOptionSays, and as the model does without it.
func TestAutoMeasuresAsTheOptionSays(t *testing.T) {
	m := slowModel{newModel(core.RMSNorm)}
	m.fakeModel[0].Facts.Dim = 5
	for want, opts := range map[string][]core.Option{"": nil, "norm": {measured(new([]string))}} {
		r := newRegistry(t, newKernel("norm", core.RMSNorm))
		report, err := core.ApplyDefaultKernels(t.Context(), m, r, "auto", opts...)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.kernels()[0]; got != want {
			t.Errorf("with %d options the kernel is %q, want %q", len(opts), got, want)
		}
		if err := report.Restore(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyWhatAutoChoosesIsMeasured(t *testing.T) {
	tests := []struct {
		selection string
		asked     []string
	}{
		{"auto", []string{"norm on layers.0.rms_norm", "rope on layers.1.rope"}},
		{"auto,-rope", []string{"norm on layers.0.rms_norm"}},
		{"auto,norm", []string{"rope on layers.1.rope"}},
		{"all", nil},
		{"norm,rope", nil},
		{"none", nil},
	}
	for _, tt := range tests {
		t.Run(tt.selection, func(t *testing.T) {
			r := newRegistry(t, newKernel("norm", core.RMSNorm), newKernel("rope",
				core.RoPE), refuse(newKernel("swiglu", core.SwiGLU), "no"))
			var asked []string
			if _, err := plan(t, newModel(core.RMSNorm, core.RoPE, core.SwiGLU),
				r, tt.selection, measured(&asked)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("measured %q, want %q", asked, tt.asked)
			}
		})
	}
}

func TestCancellingAMeasurementEndsThePlan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := core.ApplyDefaultKernels(ctx, newModel(core.RMSNorm), newRegistry(t, newKernel("norm", core.RMSNorm)),
		"auto",
		core.Measured(func(context.Context, core.Site, core.Kernel) (core.Measurement, error) {
			cancel()
			return core.Measurement{}, errors.New("the probe failed")
		}))
	wantErrorIs(t, err, context.Canceled)
}

func TestReportShowsTheFiguresBelowEachAnswer(t *testing.T) {
	m := newModel(core.RMSNorm, core.RMSNorm, core.RMSNorm, core.SwiGLU)
	m[0].Facts.Dim, m[1].Facts.Dim, m[2].Facts.Dim = 5, 5, 20
	p, err := plan(t, m, newRegistry(t, newKernel("norm", core.RMSNorm)), "auto", measured(new([]string)))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"N  PATH               FORWARD",
		"2  layers.*.rms_norm  plain -> norm",
		"    2.0x: 5.00 ms against 10.0 ms plain, 1024 tokens",
		"1  layers.*.rms_norm  plain rms_norm",
		"    norm is slower: 20.0 ms against 10.0 ms plain, 1024 tokens",
		"1  layers.*.swiglu    plain swiglu (no kernel offers swiglu)",
		"2 of 4 sites use a fused kernel",
		"",
	}, "\n")
	if got := core.FormatActions(p.Actions); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestAutoTakesTheFastestOfSeveral: each that is slower than the plain forward says so where none is left.
func TestAutoTakesTheFastestOfSeveral(t *testing.T) {
	took := map[string]time.Duration{"a": 9, "b": 5, "c": 7, "doubtful": 9, "slow": 20, "slower": 30}
	doubt := map[string]float64{"doubtful": 0.2}
	stopwatch := core.Measured(func(_ context.Context, _ core.Site, k core.Kernel) (core.Measurement, error) {
		d := took[k.Info().Name]
		return core.Measurement{Plain: 10 * time.Millisecond, Kernel: d * time.Millisecond, Tokens: 8,
			Doubt: doubt[k.Info().Name]}, nil
	})
	for _, tt := range []struct {
		kernels []string
		want    string
	}{
		{[]string{"a", "b", "c"}, "b"},
		{[]string{"slow", "a"}, "a"},
		{[]string{"doubtful"}, "plain: doubtful is not surely faster: 9.00 ms against 10.0 ms plain, 8 tokens"},
		{[]string{"slower", "slow"}, "plain: slow is slower: 20.0 ms against 10.0 ms plain, 8 tokens; " +
			"slower is slower: 30.0 ms against 10.0 ms plain, 8 tokens"},
	} {
		var kernels []core.Kernel
		for _, name := range tt.kernels {
			kernels = append(kernels, newKernel(name, core.RMSNorm))
		}
		p, err := plan(t, newModel(core.RMSNorm), newRegistry(t, kernels...), "auto", stopwatch)
		if err != nil {
			t.Fatal(err)
		}
		if got := planned(p)[0]; got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.kernels, got, tt.want)
		}
	}
}
