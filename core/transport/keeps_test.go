package transport

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
	pluginside "github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/core/reference"
)

// keeping is the reference of reshape_and_cache. At a site that is the path of a file that does not exist yet it makes
// that, stores half, and dies.
type keeping struct{ core.Kernel }

func (k keeping) Forward(ctx context.Context, c *core.Call) error {
	if c.Site == "not supported" {
		return core.ErrNotSupported
	}
	if f, err := os.OpenFile(c.Site, os.O_CREATE|os.O_EXCL, 0o600); c.Site != "" && err == nil {
		f.Close()
		copy(c.Output("k_cache").Data[:8], "spoiled!")
		os.Exit(7)
	}
	return k.Kernel.Forward(ctx, c)
}

func serveKeeping() {
	pluginside.Serve("keeping", "1", keeping{reference.Kernel(core.ReshapeAndCache)})
}

// TestPluginsLeaveWhatTheyDoNotWrite has caches where the plugin writes, and elsewhere; the reference, where it takes
// over, and a process that takes the place of one that died in the middle leave the rest, too.
func TestPluginsLeaveWhatTheyDoNotWrite(t *testing.T) {
	onGoPaths(t, func(t *testing.T, o Options) {
		opened, err := o.Open(t.Context(), pluginPath(t, "keeps"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		host, err := o.NewMemory("host", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { host.Close() })
		k := opened.Kernels()[0]
		own := core.OutputsOf(k, nil)
		for name, tt := range map[string]struct {
			out  core.Memory
			site string
		}{"in place": {own, ""}, "copied": {nil, ""}, "by the reference": {own, "not supported"},
			"after a death": {own, filepath.Join(t.TempDir(), "dead")}} {
			f := core.Facts{DType: core.Float32, HeadDim: 4, KVHeads: 2, BlockSize: 3, Experts: 1}
			c := makeCall(t, core.ReshapeAndCache, core.Forward, f, host, tt.out)
			want := makeCall(t, core.ReshapeAndCache, core.Forward, f, nil, nil)
			for _, c := range []*core.Call{c, want} {
				for i := range c.Input("slots").Int32s() {
					c.Input("slots").Int32s()[i] = int32(2*i) - 2 // the first has none
				}
			}
			if err := core.Run(t.Context(), reference.Kernel(core.ReshapeAndCache), want); err != nil {
				t.Fatal(err)
			}
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
		if h := core.HealthOf(k); h.Deaths != 1 || h.Repeats != 1 || h.Fallbacks != 1 {
			t.Errorf("health %+v", h)
		}
	})
}
