package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/ctest"
	"github.com/seed98097648/tune/internal/wire"
)

// fakeBell is a plugin's side without a process: it answers every request alike.
type fakeBell struct {
	link
	answer *answer // nil: it never answers
	asked  string
	kind   wire.Kind
}

func (b *fakeBell) ask(kind wire.Kind, text []byte) error {
	b.kind, b.asked = kind, string(text)
	return nil
}

func (b *fakeBell) wait(time.Duration) (answer, bool) {
	if b.answer == nil {
		return answer{}, false
	}
	return *b.answer, true
}

// said is an answer that says that.
func said(text string) *answer { return &answer{Answer: wire.Answer{Text: text}} }

func bareWith(a *answer) (control, *fakeBell) {
	b := &fakeBell{answer: a}
	return control{b, func() bool { return false }}, b
}

// hostOfBare is a program that opens a plugin over the doorbell and is then killed.
func hostOfBare() {
	p, err := quiet(Options{}).Open(context.Background(), os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.(*plugin).proc.cmd.Process.Pid)
	time.Sleep(time.Hour)
}

func TestFactsGoToABarePluginAsLines(t *testing.T) {
	c, b := bareWith(said("handle=7\n"))
	f := core.Facts{DType: core.BFloat16, WeightDType: core.Float32, Dim: 64, Eps: 1e-5, Cast: core.CastBeforeWeight,
		Frozen: true}
	h, err := c.bind(context.Background(), binding{kernel: 2, pass: core.Backward, facts: f})
	if err != nil || h != 7 {
		t.Fatalf("handle %d: %v", h, err)
	}
	want := "kernel=2\npass=backward\ndtype=bfloat16\nweight_dtype=float32\n" +
		"dim=64\neps=0.00001\ncast=before_weight\nfrozen=true\n"
	if b.kind != wire.Bind || b.asked != want {
		t.Errorf("request %d: %q\nwant %q", b.kind, b.asked, want)
	}
	if _, err := c.supports(context.Background(), 2, f); err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(want, "pass=backward\n", "", 1); b.kind != wire.Supports || b.asked != want {
		t.Errorf("request %d: %q\nwant %q", b.kind, b.asked, want)
	}
}

func TestFactsThatDoNotFitALineAreNotSupported(t *testing.T) {
	c, _ := bareWith(&answer{})
	f := core.Facts{DType: core.Float32, Intermediate: 3, Activation: "silu\nlayout=packed"}
	if _, err := c.supports(context.Background(), 0, f); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("supports: %v", err)
	}
	if _, err := c.bind(context.Background(), binding{facts: f}); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("bind: %v", err)
	}
}

func TestABarePluginsDescriptionIsRead(t *testing.T) {
	c, b := bareWith(said("name=two\nversion=1.2\n" +
		"kernel=swiglu\nsummary=fast = good\ndtypes=float32,bfloat16\nbackward=true\nby_threads=true\nkeeps=true\n" +
		"kernel=rope\ndtypes=float32\n"))
	got, err := c.describe(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := core.Manifest{Name: "two", Version: "1.2", Kernels: []core.Info{
		{Name: "two", Version: "1.2", Op: "swiglu", Summary: "fast = good",
			DTypes: []core.DType{core.Float32, core.BFloat16}, Backward: true, ByThreads: true, Keeps: true},
		{Name: "two", Version: "1.2", Op: "rope", DTypes: []core.DType{core.Float32}}}}
	if d := cmp.Diff(want, got); d != "" || b.kind != wire.Describe {
		t.Errorf("request %d (-want +got):\n%s", b.kind, d)
	}
}

// TestAPluginInCHasWhatOthersHave: weights in NF4, and all that it can say of a kernel.
func TestAPluginInCHasWhatOthersHave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c_nf4")
	ctest.Compile(t, path, "core/transport/testdata/nf4.c")
	p, err := quiet(Options{}).Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	k := p.Kernels()[0]
	if i := k.Info(); !i.ByThreads || !i.Keeps {
		t.Errorf("it says %+v; it depends on threads and keeps something", i)
	}
	// The last byte has one element.
	f := core.Facts{DType: core.Float32, WeightDType: core.NF4, Dim: 67, Out: 5, Frozen: true}
	if err := k.Supports(f); err != nil {
		t.Fatal(err)
	}
	if err := kerneltest.Check(k, kerneltest.CasesFor(core.Linear, f)); err != nil {
		t.Error(err)
	}
}

func TestAPluginMayBeInCPlusPlus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plus")
	ctest.CompilePlus(t, path, "core/transport/testdata/plus.cpp")
	p, err := quiet(Options{}).Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	f := core.Facts{DType: core.Float32, Intermediate: 33, Activation: core.SiLU, Layout: core.Separate}
	if err := p.Kernels()[0].Supports(f); err != nil {
		t.Fatal(err)
	}
	if err := kerneltest.Check(p.Kernels()[0], kerneltest.CasesFor(core.SwiGLU, f)); err != nil {
		t.Error(err)
	}
}

func TestNothingThatABarePluginSaysIsTrusted(t *testing.T) {
	describe := func(c control) error { _, err := c.describe(context.Background(), ""); return err }
	bind := func(c control) error { _, err := c.bind(context.Background(), binding{}); return err }
	cases := map[string]struct {
		answer *answer
		ask    func(control) error
		want   string
	}{
		"no line":               {said("hello"), describe, "no line name=value"},
		"an empty line":         {said("name=a\n\n"), describe, "no line name=value"},
		"a control character":   {said("name=\x1b[2J\n"), describe, "no line name=value"},
		"another encoding":      {said("name=\xff\n"), describe, "no line name=value"},
		"an unknown name":       {said("name=a\nkernel=rope\ncolour=red\n"), describe, "colour=red"},
		"a name too late":       {said("kernel=rope\nname=a\n"), describe, "name=a"},
		"a summary too early":   {said("summary=a\n"), describe, "before its first kernel"},
		"a name twice":          {said("name=a\nname=b\n"), describe, "two lines"},
		"a long dtype":          {said("kernel=rope\ndtypes=" + strings.Repeat("x", 300)), describe, "its dtype"},
		"neither true nor so":   {said("kernel=rope\nbackward=yes\n"), describe, "backward=yes"},
		"neither as to threads": {said("kernel=rope\nby_threads=2\n"), describe, "by_threads=2"},
		"a failure": {&answer{Answer: wire.Answer{Status: wire.Failed, Text: "no device"}},
			describe, "no device"},
		"no handle":          {said("7"), bind, "handle=NUMBER"},
		"a handle too large": {said("handle=4294967296"), bind, "handle=NUMBER"},
		"a negative handle":  {said("handle=-1"), bind, "handle=NUMBER"},
		"bind is not supported": {&answer{Answer: wire.Answer{Status: wire.NotSupported, Text: "only even days"}},
			bind, "only even days"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, _ := bareWith(tc.answer)
			if err := tc.ask(c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
		})
	}
}

func TestKernelsOfAnUnknownDTypeAreRefused(t *testing.T) {
	c, _ := bareWith(said("name=new\nversion=9\nkernel=rope\ndtypes=float32,float8\n"))
	if _, err := c.describe(context.Background(), ""); err == nil || !strings.Contains(err.Error(),
		`rope: core: unknown dtype "float8"`) {
		t.Errorf("error %v", err)
	}
}

func TestABarePluginThatDoesNotAnswer(t *testing.T) {
	c, _ := bareWith(nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.describe(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("after the deadline: %v", err)
	}
	c.gone = func() bool { return true }
	if _, err := c.describe(context.Background(), ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
}

func FuzzParseDescription(f *testing.F) {
	f.Add("name=a\nversion=1\nkernel=rope\nsummary=s\ndtypes=float32\nbackward=true\n")
	f.Add("kernel=")
	f.Add("=\n=")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDescription(text)
		if err != nil {
			return
		}
		said := append([]string{d.Name, d.Version}, "")
		for _, k := range d.Kernels {
			said = append(append(said, string(k.Op)), strings.Split(k.Summary, "\n")...)
		}
		for _, s := range said {
			if !wire.Plain(s) || !strings.Contains(text, s) {
				t.Errorf("%q was read as %q", text, s)
			}
		}
		if n := strings.Count(text, "kernel="); len(d.Kernels) > n {
			t.Errorf("%d kernels in %q", len(d.Kernels), text)
		}
	})
}
