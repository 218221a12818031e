package transport

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/seed98097648/tune/core"
	pluginside "github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/core/reference"
)

// adding is the reference of linear as a kernel that can add dweight.
type adding struct{ core.Kernel }

func (a adding) Info() core.Info {
	i := a.Kernel.Info()
	i.Adds, i.AddsTokens = []string{"dweight"}, tokens
	return i
}

func (a adding) Backward(ctx context.Context, c *core.Call) error {
	if c.Site == "not supported" {
		return core.ErrNotSupported
	}
	apart, _, err := c.Apart(nil)
	if err == nil {
		err = a.Kernel.Backward(ctx, apart)
	}
	if err != nil {
		return err
	}
	c.Join(apart)
	if c.Site == "die" { // when what is there is wrong for a second time
		os.Exit(7)
	}
	return nil
}

func serveAdding() { pluginside.Serve("adding", "1", adding{reference.Kernel(core.Linear)}) }

// addingCall is one with its outputs in a memory, and what they are to be.
func addingCall(t *testing.T, in, out core.Memory, output string) (c, want *core.Call) {
	t.Helper()
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 7, Out: 5}
	call := func(in, out core.Memory) *core.Call {
		c := makeCall(t, core.Linear, core.Backward, f, in, out)
		for _, a := range c.Sig.Out {
			c.Add = append(c.Add, a.Name == output)
		}
		return c
	}
	want = call(nil, nil)
	apart, _, err := want.Apart(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Run(t.Context(), reference.Kernel(core.Linear), apart); err != nil {
		t.Fatal(err)
	}
	want.Join(apart)
	return call(in, out), want
}

// TestPluginsAddToWhatIsThere has outputs where the plugin writes, and elsewhere; the reference, where it takes
// over, adds too.
func TestPluginsAddToWhatIsThere(t *testing.T) {
	onGoPaths(t, func(t *testing.T, o Options) {
		p, k, host := openAdding(t, o)
		for name, tt := range map[string]struct {
			out  core.Memory
			site string
		}{"in place": {p.output, ""}, "copied": {nil, ""}, "by the reference": {p.output, "not supported"}} {
			c, want := addingCall(t, host, tt.out, "dweight")
			c.Site = tt.site
			if err := core.Run(t.Context(), k, c); err != nil {
				t.Fatal(err)
			}
			for i, x := range c.Out {
				if string(x.Data) != string(want.Out[i].Data) {
					t.Errorf("%s: %s is %v, want %v", name, c.Sig.Out[i].Name, x.Float32s(), want.Out[i].Float32s())
				}
			}
		}
	})
}

// TestASumThatADeadPluginLeftIsNotAddedToAgain: nobody knows what is there.
func TestASumThatADeadPluginLeftIsNotAddedToAgain(t *testing.T) {
	onGoPaths(t, func(t *testing.T, o Options) {
		p, k, host := openAdding(t, o)
		c, _ := addingCall(t, host, p.output, "dweight")
		c.Site = "die"
		for range maxDeaths + 1 {
			if err := core.Run(t.Context(), k, c); !errors.Is(err, core.ErrSpoiled) {
				t.Fatalf("error %v, want %v", err, core.ErrSpoiled)
			}
		}
		h := core.HealthOf(k)
		if h.Deaths != maxDeaths+1 || h.Repeats != 0 || h.Fallbacks != 0 {
			t.Errorf("health %+v, want %d deaths and nothing made again", h, maxDeaths+1)
		}
	})
}

func TestAPluginIsNotToldToAddWhereItCannot(t *testing.T) {
	onGoPaths(t, func(t *testing.T, o Options) {
		p, k, host := openAdding(t, o)
		c, _ := addingCall(t, host, p.output, "dx")
		for name, run := range map[string]func() error{
			"by core.Run":   func() error { return core.Run(t.Context(), k, c) },
			"by the plugin": func() error { return k.Backward(t.Context(), c) },
		} {
			if err := run(); !errors.Is(err, core.ErrBadCall) {
				t.Errorf("%s: error %v, want %v", name, err, core.ErrBadCall)
			}
		}
	})
}

func openAdding(t *testing.T, o Options) (*plugin, core.Kernel, Memory) {
	t.Helper()
	opened, err := o.Open(t.Context(), pluginPath(t, "adds"))
	if err != nil {
		t.Fatal(err)
	}
	host, err := o.NewMemory("host", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(opened.Close(), host.Close()); err != nil {
			t.Error(err)
		}
	})
	p := opened.(*plugin)
	if i := p.kernels[0].Info(); !i.CanAdd("dweight", tokens) || i.CanAdd("dweight", tokens+1) || i.CanAdd("dx", tokens) {
		t.Fatalf("it describes itself as %+v", i)
	}
	return p, p.kernels[0], host
}
