package opbench

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/plugins/linked"
)

func normKernel(t *testing.T, kernels []core.Kernel) core.Kernel {
	t.Helper()
	i := slices.IndexFunc(kernels, func(k core.Kernel) bool { return k.Info().Op == core.RMSNorm })
	if i < 0 {
		t.Fatal("no kernel for rms_norm")
	}
	return kernels[i]
}

func TestBoundaryNeedsNoCopies(t *testing.T) {
	open := func(o transport.Options) core.Kernel {
		return normKernel(t, plugintest.Scan(t, o).Kernels())
	}
	b, err := MeasureBoundary(t.Context(), BoundaryOptions{
		Across: open(transport.Options{Strict: true}), Portable: open(transport.Options{Strict: true, Portable: true}),
		Linked: normKernel(t, linked.Kernels()), Memory: plugintest.Memory(t), Calls: 20, Rounds: 2,
		Bytes: []int{4 << 10, 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if b.Copies != 0 {
		t.Errorf("%d copies", b.Copies)
	}
	if len(b.RoundTrips) != 4 || len(b.Transfers) != 2 {
		t.Fatalf("%d round trips, %d sizes; want 4 and 2", len(b.RoundTrips), len(b.Transfers))
	}
	for _, r := range b.RoundTrips {
		if r.Calls != 20 || r.P50 <= 0 || r.P99 < r.P50 {
			t.Errorf("%+v", r)
		}
	}
	for _, x := range b.Transfers {
		if x.Linked.Median <= 0 || x.Across.Median <= 0 || x.Calls < 1 {
			t.Errorf("%+v", x)
		}
	}
}

func TestBoundaryRefuses(t *testing.T) {
	k := normKernel(t, linked.Kernels())
	for want, o := range map[string]BoundaryOptions{
		"0 calls":      {Rounds: 1},
		"0 rounds":     {Calls: 1},
		"multiples of": {Calls: 1, Rounds: 1, Bytes: []int{4097}},
	} {
		o.Across, o.Linked = k, k
		if _, err := MeasureBoundary(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
