package builtin

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/plugins/linked"
)

// TestMain makes the test binary a program with built-in plugins.
func TestMain(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

// scan is a registry with the kernels that are given, and what Add adds to it.
func scan(t *testing.T, o transport.Options, before ...core.Kernel) *core.Registry {
	t.Helper()
	o.CacheDir = "off"
	reg := core.NewRegistry()
	for _, k := range before {
		if err := reg.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	if err := Add(context.Background(), reg, o.OpenBuiltIn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	return reg
}

func TestAProgramIsItsOwnPlugins(t *testing.T) {
	for name, o := range map[string]transport.Options{"native": {}, "portable": {Portable: true}} {
		t.Run(name, func(t *testing.T) {
			var got []core.Info
			for _, f := range scan(t, o).Listing() {
				if f.Err != nil || f.Path != core.BuiltIn+f.Manifest.Name || len(f.Manifest.Checksum) != 64 {
					t.Errorf("%s %s: %v", f.Path, f.Manifest.Checksum, f.Err)
				}
				got = append(got, f.Manifest.Kernels...)
			}
			for i, k := range linked.Kernels() {
				if i >= len(got) || got[i].Name != k.Info().Name || got[i].Op != k.Info().Op {
					t.Fatalf("kernel %d is %v, want %v", i, got, k.Info())
				}
			}
		})
	}
}

func TestItsProcessesCompute(t *testing.T) {
	f := core.Facts{DType: core.Float32, Intermediate: 16, Activation: "silu", Layout: core.Separate}
	ks, err := scan(t, transport.Options{Strict: true}).Lookup("npu_fused_swiglu")
	if err != nil {
		t.Fatal(err)
	}
	if err := ks[0].(core.Verifier).Verify(context.Background(), f); err != nil {
		t.Error(err)
	}
	if h := ks[0].(core.HealthReporter).Health(); h.Calls == 0 || h.Deaths != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestANameThatIsTakenStaysSo(t *testing.T) {
	all := linked.Kernels()
	i := slices.IndexFunc(all, func(k core.Kernel) bool { return k.Info().Name == "npu_fused_rope" })
	reg := scan(t, transport.Options{}, all[i])
	ks, err := reg.Lookup("npu_fused_rope")
	if err != nil || len(ks) != 1 || ks[0] != all[i] {
		t.Errorf("%v, %v", ks, err)
	}
	if n := len(reg.Listing()); n != len(linked.Plugins()) {
		t.Errorf("%d plugins", n)
	}
}

func TestAPluginThatTheProgramDoesNotHave(t *testing.T) {
	_, err := transport.Options{}.Open(context.Background(), core.BuiltIn+"npu_fused_bread")
	if err == nil || !strings.Contains(err.Error(), `this program has no plugin "npu_fused_bread"`) {
		t.Errorf("error %v", err)
	}
}

// TestABuiltInPluginThatCannotBeStartedSaysWhy to who names it, unless a lock leaves it out.
func TestABuiltInPluginThatCannotBeStartedSaysWhy(t *testing.T) {
	lookup := func(cause error) error {
		reg := core.NewRegistry()
		refuse := func(_ context.Context, names []string) ([]core.Plugin, []error) {
			return make([]core.Plugin, len(names)), slices.Repeat([]error{cause}, len(names))
		}
		if err := Add(context.Background(), reg, refuse); err != nil {
			t.Fatal(err)
		}
		_, err := reg.Lookup("npu_fused_rope")
		return err
	}
	if cause := errors.New("there is no /proc"); !errors.Is(lookup(cause), cause) {
		t.Errorf("error %v", lookup(cause))
	}
	if err := lookup(core.ErrUntrusted); !errors.Is(err, core.ErrUnknownKernel) {
		t.Errorf("error %v", err)
	}
}
