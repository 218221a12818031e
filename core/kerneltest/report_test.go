package kerneltest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// examine runs Examine on one use of an op, with few calls.
func examine(t *testing.T, k core.Kernel, f core.Facts) *kerneltest.Report {
	t.Helper()
	r, err := kerneltest.Examine(t.Context(),
		k, kerneltest.Options{Quick: true, Facts: []core.Facts{f}, Calls: 20, Repeats: 20, Inputs: new(counting)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// of returns the results of one kind.
func of(r *kerneltest.Report, kind string) []kerneltest.Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(c kerneltest.Result) bool { return c.Kind != kind })
}

// float32Only is a kernel that names what it is tested with.
type float32Only struct{ core.Kernel }

func (k float32Only) Info() core.Info {
	i := k.Kernel.Info()
	i.DTypes = []core.DType{core.Float32}
	return i
}

func TestReferencesPassExamine(t *testing.T) {
	for op, f := range facts {
		t.Run(string(op), func(t *testing.T) {
			r := examine(t, float32Only{reference.Single(op)}, f)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
			if n := r.Count(kerneltest.OK); n < 8 {
				t.Errorf("only %d cases are ok", n)
			}
			for _, c := range r.Results {
				if math.IsNaN(c.Share) || c.Share < 0 || c.Share > 1 {
					t.Errorf("%s: share %v", c.Case, c.Share)
				}
			}
			if l := of(r, "latency of one token"); len(l) != 1 || len(l[0].Latency) != 2 ||
				l[0].Latency[0].P99 < l[0].Latency[0].Median || l[0].Latency[0].Median <= 0 {
				t.Errorf("latency %+v", l)
			}
		})
	}
}

// keepsInput computes with what its first input was when it first had the same address and mark.
func keepsInput(mark func(data []byte) any) func(runFunc, *core.Call) error {
	kept := map[string][2][]byte{} // a copy, and the memory itself, so that nothing else lies there
	return func(run runFunc, c *core.Call) error {
		x := c.In[0]
		key := fmt.Sprint(c.Pass, c.Tokens(), beside(x, 0), mark(x.Data))
		if kept[key][0] == nil {
			kept[key] = [2][]byte{bytes.Clone(x.Data), x.Data}
		}
		other := *c
		other.In = slices.Clone(c.In)
		other.In[0].Data = kept[key][0]
		return run(&other)
	}
}

// TestSpecialCasesCatchWhatOneCallDoesNotShow plants bugs that pass every single case.
func TestSpecialCasesCatchWhatOneCallDoesNotShow(t *testing.T) {
	many := 0
	for _, tt := range []struct {
		name, kind, want string
		op               core.Op
		bug              func(runFunc, *core.Call) error
	}{
		{"small bias", "32 stacked layers", "forward q_out: after ", core.RoPE, func(run runFunc, c *core.Call) error {
			err := run(c)
			for _, x := range c.Out {
				change(x, func(v []float32) {
					for i := range v {
						v[i] *= 1 + 0x1p-22
					}
				})
			}
			return err
		}},
		{"keeps what it saw in the first call", "calls in turn",
			"forward y: after a call with other data in the same memory: ", core.SwiGLU,
			keepsInput(func([]byte) any { return nil })},
		{"knows an input by its ends", "calls in turn",
			"forward y: after a call that differs in the middle of each input only: ", core.SwiGLU,
			keepsInput(func(b []byte) any { return fmt.Sprint(b[:4], b[len(b)-4:]) })},
		{"one call in fifteen is another", "the same call 20 times", "call 15 of 20: ",
			core.SwiGLU, func(run runFunc, c *core.Call) error {
				err := run(c)
				if c.Tokens() > 100 && c.Pass == core.Forward {
					if many++; many%15 == 0 {
						c.Out[0].Float32s()[5]++
					}
				}
				return err
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := examine(t, float32Only{faulty{reference.Single(tt.op), tt.bug}}, facts[tt.op])
			for _, c := range r.Results {
				switch {
				case c.Kind == tt.kind && (c.Status != kerneltest.Failed || !strings.Contains(c.Err().Error(), tt.want)):
					t.Errorf("not caught: want %q, got %s, %v", tt.want, c.Status, c.Err())
				case c.Kind != tt.kind && c.Status == kerneltest.Failed && !strings.HasSuffix(c.Kind, "in any order") &&
					c.Kind != "inputs known by number": // both look for what is kept, too
					t.Errorf("another case caught it: %v", c.Err())
				}
			}
		})
	}
}

// TestResultsOfOneThreadMustBeThoseOfMore: the second process of a kernel gives other bits.
func TestResultsOfOneThreadMustBeThoseOfMore(t *testing.T) {
	right := float32Only{reference.Single(core.SwiGLU)}
	other := float32Only{faulty{right, func(run runFunc, c *core.Call) error {
		err := run(c)
		if c.Pass == core.Backward {
			change(c.Out[0], func(v []float32) { v[3] = math.Nextafter32(v[3], 100) })
		}
		return err
	}}}
	wrong := float32Only{faulty{right, func(run runFunc, c *core.Call) error {
		err := run(c)
		change(c.Out[0], func(v []float32) { v[3] += 1 })
		return err
	}}}
	for _, tt := range []struct {
		kernel, single core.Kernel
		status         kerneltest.Status
		want           string
	}{
		{right, nil, kerneltest.Skipped, ""},
		{right, right, kerneltest.OK, ""},
		{right, other, kerneltest.Failed, "backward dgate_up: the same call with one thread and with more: "},
		{byThreads{right}, other, kerneltest.OK, "the kernel says that they depend on the number of threads"},
		{byThreads{right}, wrong, kerneltest.Failed, "forward y: the same call with one thread and with more: "},
	} {
		o := kerneltest.Options{Quick: true, Facts: []core.Facts{facts[core.SwiGLU]},
			Calls: 1, Repeats: 1, Single: tt.single}
		r, err := kerneltest.Examine(t.Context(), tt.kernel, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range of(r, "one thread or more") {
			if said := fmt.Sprint(c.Reason, c.Err()); c.Status != tt.status || !strings.Contains(said, tt.want) {
				t.Errorf("%s, %s; want %s, %q", c.Status, said, tt.status, tt.want)
			}
		}
		if len(of(r, "one thread or more")) != 1 {
			t.Error("the case is not there")
		}
	}
}

// TestMoreThreadsThanRowsAreTried: of three rows, the fourth thread and those after it have none.
func TestMoreThreadsThanRowsAreTried(t *testing.T) {
	right := reference.Single(core.SwiGLU)
	o := kerneltest.Options{Quick: true, Facts: []core.Facts{facts[core.SwiGLU]}, Calls: 1, Repeats: 1, Single: right}
	for want, bug := range map[string]func(runFunc, *core.Call) error{
		"the same call with one thread and with more: ": more(tokens, 100),
		"with many threads, T=3: ":                      where(func(c *core.Call) bool { return c.Tokens() == 3 }),
		"":                                              func(run runFunc, c *core.Call) error { return run(c) },
	} {
		o.Many = faulty{right, bug}
		r, err := kerneltest.Examine(t.Context(), right, o)
		if err != nil {
			t.Fatal(err)
		}
		c := of(r, "one thread or more")[0]
		if c.Status != kerneltest.OK != (want != "") || want != "" && !strings.Contains(c.Err().Error(), want) {
			t.Errorf("%s, %v; want %q", c.Status, c.Err(), want)
		}
	}
}

// byThreads is a kernel that says that its bits depend on the number of threads.
type byThreads struct{ core.Kernel }

func (k byThreads) Info() core.Info {
	i := k.Kernel.Info()
	i.ByThreads = true
	return i
}

// growing is a kernel in a process that gets larger: by so many bytes with each call, and by
// others in the first calls after somebody has asked.
type growing struct {
	core.Kernel
	calls       *passed
	each, first int64
}

// passed is how many calls there were, and had been when somebody asked first.
type passed struct{ made, asked int64 }

func (g growing) Forward(ctx context.Context, c *core.Call) error {
	g.calls.made++
	return g.Kernel.Forward(ctx, c)
}

func (g growing) Holdings() (kerneltest.Holdings, error) {
	if g.calls.asked == 0 {
		g.calls.asked = g.calls.made
	}
	n := g.calls.made - g.calls.asked
	return kerneltest.Holdings{Memory: 1<<20 + n*g.each + min(n, 100)*g.first}, nil
}

// unmeasured is a kernel in a process that the system says nothing about.
type unmeasured struct{ core.Kernel }

func (unmeasured) Holdings() (kerneltest.Holdings, error) {
	return kerneltest.Holdings{}, errors.ErrUnsupported
}

func TestMemoryThatGrowsWithEveryCallIsCaught(t *testing.T) {
	k, f := reference.Single(core.SwiGLU), facts[core.SwiGLU]
	f.Intermediate = 3
	for name, tt := range map[string]struct {
		kernel core.Kernel
		want   kerneltest.Status
		text   string
	}{
		"leak": {growing{k, new(passed), 600, 0},
			kerneltest.Failed, "the process grows by 600 bytes with each call"},
		"leak into free memory": {growing{k, new(passed), 600, -150},
			kerneltest.Failed, "the process grows by 600 bytes with each call"},
		"garbage":        {growing{k, new(passed), 100, 0}, kerneltest.OK, ""},
		"grows at first": {growing{k, new(passed), 0, 5000}, kerneltest.OK, ""},
		"not told":       {unmeasured{k}, kerneltest.Skipped, "unsupported"},
		"no process":     {k, kerneltest.Skipped, "no process of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			const kind = "memory over 100 calls"
			r, err := kerneltest.Examine(t.Context(), tt.kernel, kerneltest.Options{Quick: true, Facts: []core.Facts{f},
				Calls: 100, Repeats: 1, Wants: func(k, _ string) bool { return k == kind }})
			if err != nil {
				t.Fatal(err)
			}
			c := of(r, kind)[0]
			if text := fmt.Sprint(c.Reason, c.Err()); c.Status != tt.want || !strings.Contains(text, tt.text) {
				t.Errorf("%s, %s, %+v", c.Status, text, c.Memory)
			}
		})
	}
}

// mortal is a kernel whose process dies in every n-th call.
type mortal struct {
	core.Kernel
	calls, n uint64
	gone     bool // and cannot be started again
}

func (m *mortal) Forward(ctx context.Context, c *core.Call) error {
	m.calls++
	if m.gone {
		return fmt.Errorf("%w: it died three times on one call", core.ErrPluginExited)
	}
	return m.Kernel.Forward(ctx, c)
}

func (m *mortal) Health() core.Health { return core.Health{Deaths: m.calls / m.n} }

func TestDeathsAreViolationsAndEndTheExamination(t *testing.T) {
	for name, tt := range map[string]struct {
		kernel *mortal
		failed int
		want   string
	}{
		"now and then": {&mortal{Kernel: reference.Single(core.SwiGLU), n: 5}, 3, "because the process died in 3 cases"},
		"for good": {&mortal{Kernel: reference.Single(core.SwiGLU), n: 1 << 40, gone: true},
			1, "because the process cannot go on"},
	} {
		t.Run(name, func(t *testing.T) {
			r := examine(t, tt.kernel, facts[core.SwiGLU])
			if r.Count(kerneltest.Failed) != tt.failed || !strings.Contains(r.Stopped, tt.want) {
				t.Errorf("%d failed, stopped %q", r.Count(kerneltest.Failed), r.Stopped)
			}
			if !errors.Is(r.Err(), core.ErrPluginExited) {
				t.Errorf("error %v", r.Err())
			}
		})
	}
}

// adding is a kernel that says that it can add to outputs.
type adding struct {
	core.Kernel
	to []string
}

func (k adding) Info() core.Info {
	i := k.Kernel.Info()
	i.Adds = k.to
	return i
}

func TestClaimsAboutAddingAreChecked(t *testing.T) {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 9, Out: 5, Bias: true}
	right := summing{narrowOnly(core.Linear), addOrCopy}
	err := examine(t, right, f).Err() // it names other storage
	if err == nil || strings.Contains(err.Error(), "can add") {
		t.Errorf("error %v", err)
	}
	for _, name := range []string{"dweigth", "y", "dlora_a"} { // without an adapter
		err := examine(t, adding{right, []string{"dweight", name}}, f).Err()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("can add to %q", name)) ||
			strings.Contains(err.Error(), `"dweight"`) {
			t.Errorf("error %v", err)
		}
	}
}

func TestClaimsAboutStorageAreChecked(t *testing.T) {
	r := examine(t, reference.Single(core.SwiGLU), facts[core.SwiGLU])
	if err := r.Err(); err == nil || !strings.Contains(err.Error(),
		"names bfloat16 as a storage type but supports no case in it") {
		t.Errorf("error %v", err)
	}
	half := facts[core.SwiGLU]
	half.DType = core.BFloat16
	r = examine(t, float32Only{reference.Single(core.SwiGLU)}, half)
	if err := r.Err(); err == nil || !strings.Contains(err.Error(),
		"supports cases in bfloat16, which it does not name") {
		t.Errorf("error %v", err)
	}
}

func TestAKernelThatSupportsNothingHasFailed(t *testing.T) {
	f := facts[core.SwiGLU]
	f.Activation = "gelu"
	r := examine(t, reference.Single(core.SwiGLU), f)
	if err := r.Err(); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "nothing was checked") {
		t.Errorf("error %v", err)
	}
}

func TestExamineStopsWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	k := faulty{reference.Single(core.RoPE), func(run runFunc, c *core.Call) error {
		cancel()
		return ctx.Err()
	}}
	if _, err := kerneltest.Examine(ctx, k, kerneltest.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestManifestsAreChecked(t *testing.T) {
	good := func() core.Manifest {
		return core.Manifest{Name: "a_kernel", Version: "1.0", Kernels: []core.Info{
			{Name: "a_kernel", Op: core.RoPE, Summary: "rotates", DTypes: []core.DType{core.Float32}}}}
	}
	if v := kerneltest.CheckManifest(good()); v != nil {
		t.Errorf("%v", v)
	}
	for want, change := range map[string]func(m *core.Manifest){
		`the name is "two words"`:   func(m *core.Manifest) { m.Name, m.Kernels[0].Name = "two words", "two words" },
		`the name is "auto"`:        func(m *core.Manifest) { m.Name, m.Kernels[0].Name = "auto", "auto" },
		`the version is ""`:         func(m *core.Manifest) { m.Version = "" },
		`it offers no kernel`:       func(m *core.Manifest) { m.Kernels = nil },
		`"rop", which is no op`:     func(m *core.Manifest) { m.Kernels[0].Op = "rop" },
		`it offers rope twice`:      func(m *core.Manifest) { m.Kernels = append(m.Kernels, m.Kernels[0]) },
		`is called "another"`:       func(m *core.Manifest) { m.Kernels[0].Name = "another" },
		`the summary of rope is ""`: func(m *core.Manifest) { m.Kernels[0].Summary = "" },
		`of rope: none is named`:    func(m *core.Manifest) { m.Kernels[0].DTypes = nil },
		`of rope: int32 is not`:     func(m *core.Manifest) { m.Kernels[0].DTypes[0] = core.Int32 },
		`of rope: float32 is named twice`: func(m *core.Manifest) {
			m.Kernels[0].DTypes = []core.DType{core.Float32,
				core.Float32}
		},
	} {
		m := good()
		change(&m)
		if v := kerneltest.CheckManifest(m); len(v) != 1 || !strings.Contains(v[0].Error(), want) {
			t.Errorf("want one violation with %q, got %v", want, v)
		}
	}
}

// TestExamineInPart: of the cases that are wanted, and none if a kernel has none of them; what is left behind is what
// calls leave, though those of memory are left out.
func TestExamineInPart(t *testing.T) {
	k, f := float32Only{reference.Single(core.SwiGLU)}, facts[core.SwiGLU]
	in := func(kind string) *kerneltest.Report {
		r, err := kerneltest.Examine(t.Context(), k, kerneltest.Options{Quick: true, Facts: []core.Facts{f}, Calls: 1,
			Repeats: 1, Wants: func(k, name string) bool { return k == kind && strings.Contains(name, kind) }})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for kind, want := range map[string][]string{"none": nil, "random": {"random"}, "calls in turn": {"calls in turn"},
		"left behind by calls":   {"left behind by calls", "storage types"}, // it has no process
		"4 calls in any order":   {"4 calls in any order"},
		"inputs known by number": {"inputs known by number"}} {
		r, got := in(kind), []string(nil)
		for _, c := range r.Results {
			if !slices.Contains(got, c.Kind) {
				got = append(got, c.Kind)
			}
		}
		if failed := r.Count(kerneltest.Failed); !slices.Equal(got, want) || failed != max(len(want)-1, 0) {
			t.Errorf("%s: %q, want %q; %v", kind, got, want, r.Err())
		}
	}
}
