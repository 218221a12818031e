package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport/proto"
)

// fakeBell is a plugin's side without a process: it answers every request alike.
type fakeBell struct {
	answer *answer // nil: it never answers
	asked  string
	kind   uint32
}

func (b *fakeBell) ask(kind uint32, text []byte) error {
	b.kind, b.asked = kind, string(text)
	return nil
}

func (b *fakeBell) wait(time.Duration) (answer, bool) {
	if b.answer == nil {
		return answer{}, false
	}
	return *b.answer, true
}

func (b *fakeBell) hangUp(time.Duration) error { return nil }

func bareWith(a *answer) (bareControl, *fakeBell) {
	b := &fakeBell{answer: a}
	return bareControl{b, func() bool { return false }, factsText}, b
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
	c, b := bareWith(&answer{text: "handle=7\n"})
	f := core.Facts{DType: core.BFloat16, WeightDType: core.Float32, Dim: 64, Eps: 1e-5, Cast: core.CastBeforeWeight, Frozen: true}
	h, err := c.bind(context.Background(), binding{kernel: 2, pass: core.Backward, facts: f})
	if err != nil || h != 7 {
		t.Fatalf("handle %d: %v", h, err)
	}
	want := "kernel=2\npass=backward\ndtype=bfloat16\nweight_dtype=float32\ndim=64\neps=0.00001\ncast=before_weight\nfrozen=true\n"
	if b.kind != requestBind || b.asked != want {
		t.Errorf("request %d: %q\nwant %q", b.kind, b.asked, want)
	}
	if _, err := c.supports(context.Background(), 2, f); err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(want, "pass=backward\n", "", 1); b.kind != requestSupports || b.asked != want {
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
	c, b := bareWith(&answer{text: "name=two\nversion=1.2\n" +
		"kernel=swiglu\nsummary=fast = good\ndtypes=float32,bfloat16\nbackward=true\nkernel=rope\ndtypes=float32\n"})
	got, err := c.describe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := &proto.DescribeReply{Name: "two", Version: "1.2", Kernels: []*proto.KernelInfo{
		{Op: "swiglu", Summary: "fast = good", Dtypes: []string{"float32", "bfloat16"}, Backward: true},
		{Op: "rope", Dtypes: []string{"float32"}}}}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" || b.kind != requestDescribe {
		t.Errorf("request %d (-want +got):\n%s", b.kind, d)
	}
}

func TestNothingThatABarePluginSaysIsTrusted(t *testing.T) {
	describe := func(c bareControl) error { _, err := c.describe(context.Background()); return err }
	bind := func(c bareControl) error { _, err := c.bind(context.Background(), binding{}); return err }
	cases := map[string]struct {
		answer answer
		ask    func(bareControl) error
		want   string
	}{
		"no line":               {answer{text: "hello"}, describe, "no line name=value"},
		"an empty line":         {answer{text: "name=a\n\n"}, describe, "no line name=value"},
		"a control character":   {answer{text: "name=\x1b[2J\n"}, describe, "no line name=value"},
		"another encoding":      {answer{text: "name=\xff\n"}, describe, "no line name=value"},
		"an unknown name":       {answer{text: "name=a\nkernel=rope\ncolour=red\n"}, describe, "colour=red"},
		"a name too late":       {answer{text: "kernel=rope\nname=a\n"}, describe, "name=a"},
		"a summary too early":   {answer{text: "summary=a\n"}, describe, "before its first kernel"},
		"a name twice":          {answer{text: "name=a\nname=b\n"}, describe, "two lines"},
		"neither true nor so":   {answer{text: "kernel=rope\nbackward=yes\n"}, describe, "backward=yes"},
		"a failure":             {answer{status: proto.Status_STATUS_FAILED, text: "no device"}, describe, "no device"},
		"no handle":             {answer{text: "7"}, bind, "handle=NUMBER"},
		"a handle too large":    {answer{text: "handle=4294967296"}, bind, "handle=NUMBER"},
		"a negative handle":     {answer{text: "handle=-1"}, bind, "handle=NUMBER"},
		"bind is not supported": {answer{status: proto.Status_STATUS_NOT_SUPPORTED, text: "only even days"}, bind, "only even days"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, _ := bareWith(&tc.answer)
			if err := tc.ask(c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
		})
	}
}

func TestABarePluginThatDoesNotAnswer(t *testing.T) {
	c, _ := bareWith(nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.describe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the deadline: %v", err)
	}
	c.gone = func() bool { return true }
	if _, err := c.describe(context.Background()); !errors.Is(err, net.ErrClosed) {
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
			said = append(append(said, k.Op, k.Summary), k.Dtypes...)
		}
		for _, s := range said {
			if !plain(s) || !strings.Contains(text, s) {
				t.Errorf("%q was read as %q", text, s)
			}
		}
		if n := strings.Count(text, "kernel="); len(d.Kernels) > n {
			t.Errorf("%d kernels in %q", len(d.Kernels), text)
		}
	})
}
