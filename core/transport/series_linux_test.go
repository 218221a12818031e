package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/trust"
	"github.com/seed98097648/tune/internal/os/self"
	"github.com/seed98097648/tune/internal/wire"
)

// chain returns calls of rms_norm of which each reads what the one before it wrote, and writes over what that one
// read: one that has run cannot be run again. The second result is what the last is to write.
func chain(t *testing.T, in, out core.Memory, sites ...string) (calls []*core.Call, want []byte) {
	t.Helper()
	for _, site := range sites {
		c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), in, out)
		c.Site = site
		if n := len(calls); n > 0 {
			c.In[0] = calls[n-1].Out[0]
		}
		if n := len(calls); n > 1 {
			c.Out[0] = calls[n-2].Out[0]
		}
		calls = append(calls, c)
	}
	x := calls[0].In[0]
	for _, c := range calls {
		again := makeCall(t, core.RMSNorm, core.Forward, normFacts(), nil, nil)
		again.In = slices.Clone(c.In)
		again.In[0] = x
		if err := core.Run(t.Context(), reference.Kernel(core.RMSNorm), again); err != nil {
			t.Fatal(err)
		}
		x = again.Out[0]
	}
	return calls, x.Data
}

// openForSeries is open where there is a doorbell, without which no calls go in series.
func openForSeries(t *testing.T, o Options) opened {
	t.Helper()
	needDoorbell(t)
	return open(t, o)
}

func needDoorbell(t *testing.T) {
	t.Helper()
	if err := nativeLacks(); err != nil || (Options{}).withDefaults().Portable {
		t.Skip("no doorbell: ", err)
	}
}

func stepsOf(k core.Kernel, calls []*core.Call) (steps []core.Step) {
	for _, c := range calls {
		steps = append(steps, core.Step{Kernel: k, Call: c})
	}
	return steps
}

// TestASeriesIsWhatItsCallsAre, whatever becomes of one of them: those before it are not run again, whose inputs are
// gone, and those behind it are run.
func TestASeriesIsWhatItsCallsAre(t *testing.T) {
	const limit = 2 * time.Second
	for name, tt := range map[string]struct {
		site  string
		asked int           // how often the kernel of that call ran
		least time.Duration // that the call takes
		want  core.Health
	}{
		"all well":          {"", 0, 1, core.Health{Calls: 7}},
		"one dies":          {"die once", 2, slowLog, core.Health{Calls: 7, Deaths: 1, Repeats: 1}},
		"one always dies":   {"die", 3, 3 * slowLog, core.Health{Calls: 7, Deaths: 3, Repeats: 2, Fallbacks: 4}},
		"one hangs":         {"hang once", 2, limit, core.Health{Calls: 7, Deaths: 1, Repeats: 1}},
		"one is refused":    {"not supported", 0, 1, core.Health{Calls: 7, Fallbacks: 1}},
		"one says a word":   {"print", 0, 1, core.Health{Calls: 7}},
		"one takes a while": {"slow", 1, slowCall, core.Health{Calls: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			times := counted(t)
			o := quiet(Options{Logger: slog.New(slog.NewTextHandler(slowWriter{}, nil))})
			if tt.site == "hang once" {
				o.CallTimeout = limit
			}
			p := openForSeries(t, o)
			calls, want := chain(t, p.host, p.output, "", "", "", tt.site, "", "", "")
			var told [7]time.Duration
			start := time.Now()
			n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls),
				func(i int, d time.Duration) { told[i] += d })
			took := time.Since(start)
			if n != 7 || err != nil {
				t.Fatalf("%d calls, error %v", n, err)
			}
			if !bytes.Equal(calls[6].Out[0].Data, want) {
				t.Error("the last output is another than one by one")
			}
			p.wantDeaths(t, tt.want)
			if tt.asked > 0 && times(tt.site) < tt.asked {
				t.Errorf("it ran %d times, want %d", times(tt.site), tt.asked)
			}
			all := told[0] + told[1] + told[2] + told[3] + told[4] + told[5] + told[6]
			if told[3] < tt.least || all > took {
				t.Errorf("%v of %v are that call, which takes %v at least; all take %v", told[3], took, tt.least, all)
			}
			if tt.want.Deaths == 0 && slices.Min(told[:]) <= 0 { // what has died cannot say what it took
				t.Errorf("the calls took %v", told)
			}
			if h := p.norm.Health(); h.Busy > h.Waited {
				t.Errorf("busy for %v of %v", h.Busy, h.Waited)
			}
		})
	}
}

// slowLog is how long a slowWriter takes: what a call that dies takes at least is known then.
const slowLog = 30 * time.Millisecond

type slowWriter struct{}

func (slowWriter) Write(p []byte) (int, error) {
	time.Sleep(slowLog)
	return len(p), nil
}

// TestTheFirstCallOfASeriesDies: what the series before it had done is not taken for this one's.
func TestTheFirstCallOfASeriesDies(t *testing.T) {
	counted(t)
	p := openForSeries(t, quiet(Options{}))
	for _, sites := range [][]string{{"", "", "", ""}, {"die once", "", "", ""}} {
		calls, want := chain(t, p.host, p.output, sites...)
		if n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls), nil); n != 4 || err != nil {
			t.Fatal(n, err)
		}
		if !bytes.Equal(calls[3].Out[0].Data, want) {
			t.Error("the last output is another than one by one")
		}
	}
	p.wantHealth(t, core.Health{Calls: 8, Deaths: 1, Repeats: 1})
}

// TestASeriesIsOneRequest but for what has to go alone.
func TestASeriesIsOneRequest(t *testing.T) {
	p := openForSeries(t, quiet(Options{}))
	calls, _ := chain(t, p.host, p.output, "", "", "", "", "", "")
	requests := func() int {
		before := p.proc.link.(*doorbell).number
		if n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls), nil); n != 6 || err != nil {
			t.Fatal(n, err)
		}
		return int(p.proc.link.(*doorbell).number - before)
	}
	requests() // binds
	if n := requests(); n != 1 {
		t.Errorf("6 calls took %d requests, want 1", n)
	}
	calls[2].Out[1] = core.NewTensor(core.Float32, tokens) // the process cannot write there
	if n := requests(); n != 3 {
		t.Errorf("2 calls, one that has a copy, and 3 more took %d requests, want 3", n)
	}
}

// TestAFailureEndsASeries: its error is that of the call, and nothing behind it has run.
func TestAFailureEndsASeries(t *testing.T) {
	for site, says := range map[string]string{"error": "the device is on fire", "panic": "index out of luck"} {
		p := openForSeries(t, quiet(Options{}))
		calls, _ := chain(t, p.host, p.output, "", site, "")
		for i := range calls[2].Out[1].Data {
			calls[2].Out[1].Data[i] = 0x77
		}
		n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls), nil)
		if k, ok := errors.AsType[*core.KernelError](err); n != 1 || !ok || k.Site != site ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: call %d, error %v", site, n, err)
		}
		if calls[2].Out[1].Data[0] != 0x77 {
			t.Errorf("%s: the call behind it has run", site)
		}
		p.wantHealth(t, core.Health{Calls: 2})
	}
}

// TestASeriesEndsWithItsContext: a caller that gives up does not wait for what is left.
func TestASeriesEndsWithItsContext(t *testing.T) {
	times := counted(t)
	p := openForSeries(t, quiet(Options{}))
	calls, _ := chain(t, p.host, p.output, "", "hang", "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the call", func() bool { return times("hang") == 1 })
		cancel()
	}()
	if _, err := p.instance.RunSeries(ctx, stepsOf(p.norm, calls), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	p.mustForward(t, "")
}

// TestEachCallOfASeriesHasItsTime: together they take longer than one may. A machine that stands still for a while may
// end one all the same, and then each gets more.
func TestEachCallOfASeriesHasItsTime(t *testing.T) {
	counted(t)
	o := quiet(Options{})
	for o.CallTimeout = time.Second; o.CallTimeout < 20*time.Second; o.CallTimeout *= 2 {
		p := openForSeries(t, o)
		last := int(o.CallTimeout * 3 / 2 / slowCall)
		calls, want := chain(t, p.host, p.output, slices.Repeat([]string{"slow"}, last+1)...)
		if n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls), nil); n != len(calls) || err != nil {
			t.Fatal(n, err)
		}
		if !bytes.Equal(calls[last].Out[0].Data, want) {
			t.Error("the last output is another than one by one")
		}
		if p.norm.Health().Deaths == 0 {
			return
		}
	}
	t.Error("every series was ended, although none of its calls took long")
}

// TestWhatGoesAlone: calls that need something before or behind them.
func TestWhatGoesAlone(t *testing.T) {
	needDoorbell(t)
	p, k, host := openAdding(t, quiet(Options{}))
	adding, want := addingCall(t, host, p.output, "dweight")
	first, _ := addingCall(t, host, p.output, "")
	steps := stepsOf(k, []*core.Call{first, adding, first})
	if n, err := p.instance.RunSeries(t.Context(), steps, nil); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	for i, x := range adding.Out {
		if !bytes.Equal(x.Data, want.Out[i].Data) {
			t.Errorf("output %d is another", i)
		}
	}
	ids := makeCall(t, core.RMSNorm, core.Forward, normFacts(), host, p.output)
	if !p.reaches(ids) {
		t.Error("a call whose tensors are all shared goes alone")
	}
	ids.Out[1].DType = core.Int32
	if p.reaches(ids) {
		t.Error("indices are written where a plugin could change them behind a look")
	}
	portable := &kernel{plugin: &plugin{instance: &instance{opts: Options{Portable: true}}}}
	for name, s := range map[string]core.Step{"no doorbell": {Kernel: portable, Call: ids}, "adding": steps[1]} {
		if of, _ := core.SeriesOf(s.Kernel, s.Call); of != nil {
			t.Errorf("%s: there is a series", name)
		}
	}
	if of, kernel := core.SeriesOf(k, first); of != core.Series(p.instance) || kernel != k {
		t.Errorf("a call is run by %v of %v", kernel, of)
	}
}

// TestASeriesIsAsLongAsItsRecord: calls with many tensors fill it before there are as many as a plugin takes.
func TestASeriesIsAsLongAsItsRecord(t *testing.T) {
	p := openForSeries(t, quiet(Options{}))
	c := makeCall(t, core.MoEExperts, core.Forward, moeFacts(64), p.host, p.output)
	p.shareAll(t, c)
	steps := stepsOf(p.moe, slices.Repeat([]*core.Call{c}, 100))
	if got, want := len(p.fitting(steps)), wire.MaxRecord/wire.RecordSize(len(c.In)+len(c.Out)); got != want {
		t.Errorf("%d calls go together, want the %d that fit", got, want)
	}
	before := p.proc.link.(*doorbell).number
	if n, err := p.instance.RunSeries(t.Context(), steps, nil); n != len(steps) || err != nil {
		t.Fatal(n, err)
	}
	if asked := p.proc.link.(*doorbell).number - before; asked != 1+2 {
		t.Errorf("%d requests, want one that binds, and two", asked)
	}
	if h := p.moe.Health(); h.Calls != uint64(len(steps)) || h.Deaths+h.Repeats+h.Fallbacks != 0 {
		t.Errorf("%d calls, want %d: %+v", h.Calls, len(steps), h)
	}
}

// TestWhatEndsASeries: a call that is not for its kernel, kernels that are there no more, or elsewhere, and what a
// process has died of.
func TestWhatEndsASeries(t *testing.T) {
	p := openForSeries(t, quiet(Options{}))
	c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
	other := *c
	other.In = c.In[:1]
	p.shareAll(t, c)
	of := func(p plugin) core.Step {
		return core.Step{Kernel: &kernel{plugin: &p, info: core.Info{Op: core.RMSNorm}}, Call: c}
	}
	for name, step := range map[string]core.Step{
		"a call that its kernel refuses": {Kernel: p.norm, Call: &other},
		"closed":                         of(plugin{instance: p.instance, closed: true}),
		"given up":                       of(plugin{instance: p.instance, lost: errors.New("it died")}),
		"of another process":             of(plugin{instance: &instance{}}),
		"no plugin's":                    {Kernel: reference.Kernel(core.RMSNorm), Call: c},
	} {
		steps := append(stepsOf(p.norm, []*core.Call{c, c}), step, core.Step{Kernel: p.norm, Call: c})
		if n := len(p.fitting(steps)); n != 2 {
			t.Errorf("%s: %d calls go together, want 2", name, n)
		}
	}
	if n := len(p.fitting(append(stepsOf(p.norm, []*core.Call{c, c}), of(plugin{instance: p.instance})))); n != 3 {
		t.Errorf("%d calls of two kernels of one process go together, want 3", n)
	}
	p.alone[binding{p.norm.number, core.Forward, normFacts()}] = true
	if _, together := p.handles(stepsOf(p.norm, []*core.Call{c, c})); len(together) != 0 {
		t.Errorf("%d calls go together of a kind that the process has died of", len(together))
	}
}

// TestACallThatWritesOverItsInputEndsASeries, as it could not be repeated.
func TestACallThatWritesOverItsInputEndsASeries(t *testing.T) {
	p := openForSeries(t, quiet(Options{}))
	calls, _ := chain(t, p.host, p.output, "", "", "", "")
	for _, c := range calls {
		p.shareAll(t, c)
	}
	p.mustForward(t, "") // binds
	calls[2].Out[0] = calls[2].In[0]
	before := p.proc.link.(*doorbell).number
	n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls), nil)
	if asked := p.proc.link.(*doorbell).number - before; n != 2 || !errors.Is(err, core.ErrBadCall) || asked != 1 {
		t.Errorf("%d calls are done by %d requests, want 2 by one; error %v", n, asked, err)
	}
}

// shareAll maps the tensors of a call, as a call that goes alone does.
func (p opened) shareAll(t *testing.T, c *core.Call) {
	t.Helper()
	for _, x := range slices.Concat(c.In, c.Out) {
		r, _, ok := p.locate(x.Data)
		if !ok {
			t.Fatalf("a tensor of %v is in no memory that is shared", x.Shape)
		}
		if err := p.proc.share(r, p.output.Has(r)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAPluginThatTakesNoSeries is called one by one.
func TestAPluginThatTakesNoSeries(t *testing.T) {
	t.Setenv(barePlugin, compileBare(t))
	p := openForSeries(t, quiet(Options{}))
	calls, want := chain(t, p.host, p.output, "", "", "")
	if most := p.proc.link.most(); most != 1 {
		t.Errorf("it takes %d calls at once", most)
	}
	if n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls), nil); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if !bytes.Equal(calls[2].Out[0].Data, want) {
		t.Error("the last output is another than one by one")
	}
}

// TestBuiltInPluginsShareAProcess and nothing else: what becomes of one is not the others' affair.
func TestBuiltInPluginsShareAProcess(t *testing.T) {
	counted(t)
	o := quiet(Options{})
	o.Env = append(o.Env, builtInRole+"=1")
	names := []string{"experts", "norms", "ropes"}
	opened, errs := o.OpenBuiltIn(t.Context(), names)
	host, err := o.NewMemory("host", 1<<24)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	var plugins []*plugin
	for i, p := range opened {
		plugins = append(plugins, p.(*plugin))
		if m := p.Manifest(); m.Name != names[i] || m.Path != core.BuiltIn+names[i] || len(m.Kernels) != 1 ||
			m.Checksum != self.Checksum() {
			t.Errorf("plugin %d is %+v", i, m)
		}
	}
	norms := plugins[1]
	if norms.instance != plugins[0].instance || norms.proc == nil {
		t.Fatal("they do not share a process")
	}
	forward := func(site string) {
		t.Helper()
		c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), host, norms.output)
		c.Site = site
		if err := norms.kernels[0].Forward(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		wantReference(t, c)
	}
	forward("")
	plugins[0].Rest()
	plugins[2].Rest()
	if norms.proc == nil {
		t.Error("the process ended although one needs it")
	}
	norms.Rest()
	if norms.proc != nil {
		t.Error("the process did not end when nobody needs it")
	}
	forward("")
	forward("die") // three times, and is given up
	experts := makeCall(t, core.MoEExperts, core.Forward, moeFacts(4), host, plugins[0].output)
	if err := plugins[0].kernels[0].Forward(t.Context(), experts); err != nil {
		t.Fatal(err)
	}
	wantReference(t, experts)
	calls, _ := chain(t, host, norms.output, "", "", "")
	if n, err := norms.RunSeries(t.Context(), stepsOf(norms.kernels[0], calls), nil); n != 3 || err != nil {
		t.Error(n, err) // by the reference, although there is a process
	}
	for i, want := range []core.Health{{Calls: 1}, {Calls: 6, Deaths: 3, Repeats: 2, Fallbacks: 4}, {}} {
		h := plugins[i].kernels[0].Health()
		h.LastError, h.Waited, h.Busy = "", 0, 0
		if h != want {
			t.Errorf("%s: health %+v, want %+v", names[i], h, want)
		}
	}
	if norms.proc == nil {
		t.Error("the process ended although one needs it")
	}
	for _, p := range []io.Closer{opened[0], opened[1], opened[0], opened[2], host} {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if norms.proc != nil || norms.lost == nil {
		t.Errorf("there is a process when all are closed, and what was given up was so for %v", norms.lost)
	}
}

// TestALimitedBuiltInPluginHasItsOwnProcess: the limit is about one plugin.
func TestALimitedBuiltInPluginHasItsOwnProcess(t *testing.T) {
	for _, o := range []Options{{MaxMemory: 1 << 30}, {MaxCPUs: 1}} {
		o = quiet(o)
		o.Env = append(o.Env, builtInRole+"=1")
		opened, errs := o.OpenBuiltIn(t.Context(), []string{"experts", "norms"})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		first, second := opened[0].(*plugin), opened[1].(*plugin)
		if m := first.Manifest(); m.Checksum != self.Checksum() {
			t.Errorf("its checksum is %q", m.Checksum)
		}
		if first.instance == second.instance || first.kernels[0].number != 0 || second.kernels[0].number != 0 {
			t.Error("they share a process")
		}
		if err := errors.Join(first.Close(), second.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestBuiltInPluginsThatAreNotStarted have an error each.
func TestBuiltInPluginsThatAreNotStarted(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for says, tt := range map[string]struct {
		ctx context.Context
		o   Options
	}{
		"must not be negative":   {t.Context(), Options{MaxCPUs: -1}},
		context.Canceled.Error(): {done, Options{}},
		"is not in tune.lock":    {t.Context(), Options{Lock: &trust.Lock{File: "tune.lock"}}},
	} {
		o := quiet(tt.o)
		o.Env = append(o.Env, builtInRole+"=1")
		_, errs := o.OpenBuiltIn(tt.ctx, []string{"experts", "norms"})
		for n, err := range errs {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("plugin %d: error %v, which should say %q", n, err, says)
			}
		}
	}
}

// TestABuiltInPluginThatIsNotLockedIsNotUsed, although it is of the same program as one that is.
func TestABuiltInPluginThatIsNotLockedIsNotUsed(t *testing.T) {
	o := quiet(Options{Lock: &trust.Lock{File: "tune.lock", Entries: []trust.Entry{{Name: "norms", Version: "1",
		SHA256: self.Checksum(), Path: core.BuiltIn + "norms"}}}})
	o.Env = append(o.Env, builtInRole+"=1")
	opened, errs := o.OpenBuiltIn(t.Context(), []string{"experts", "norms"})
	if !errors.Is(errs[0], core.ErrUntrusted) || errs[1] != nil {
		t.Fatal(errs)
	}
	norms := opened[1].(*plugin)
	c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), nil, nil)
	if err := norms.kernels[0].Forward(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wantReference(t, c)
	if err := norms.Close(); err != nil || norms.proc != nil {
		t.Errorf("there is a process when all are closed, %v", err)
	}
}

// TestABuiltInPluginOfAnotherNameIsNone: nil, and no pointer to nothing.
func TestABuiltInPluginOfAnotherNameIsNone(t *testing.T) {
	o := quiet(Options{Lock: &trust.Lock{File: "tune.lock", Entries: []trust.Entry{{Name: "norms", Version: "1",
		SHA256: self.Checksum(), Path: core.BuiltIn + "experts"}}}})
	o.Env = append(o.Env, builtInRole+"=1")
	opened, errs := o.OpenBuiltIn(t.Context(), []string{"experts"})
	if !errors.Is(errs[0], core.ErrUntrusted) || opened[0] != nil {
		t.Errorf("plugin %v, %v", opened[0], errs[0])
	}
}

// TestASeriesTrustsNoPlugin that claims what cannot be.
func TestASeriesTrustsNoPlugin(t *testing.T) {
	p := openForSeries(t, quiet(Options{}))
	bell := p.proc.link.(*doorbell)
	const most = wire.MaxSeries
	for claims, want := range map[uint32]int{0: 1, 1: 1, 7: 7, most + 1: most, 1 << 31: most} {
		wire.Order.PutUint32(bell.control.Bytes()[wire.OffSeries:], claims)
		if got := bell.most(); got != want {
			t.Errorf("of one that takes %d calls: %d, want %d", claims, got, want)
		}
	}
	steps := make([]core.Step, 3)
	for i := range steps {
		steps[i].Kernel = p.norm
	}
	var text []byte
	for _, d := range []time.Duration{time.Hour, time.Millisecond, -1} {
		text = wire.Order.AppendUint64(text, uint64(d))
	}
	for name, a := range map[string]wire.Answer{
		"times":             {Text: string(text)},
		"a word":            {Text: "done", Busy: time.Hour},
		"of one that fails": {Status: wire.Failed, Text: string(text), Busy: 1 << 62},
	} {
		before := p.norm.Health()
		busy := p.account(steps, answer{Answer: a}, time.Second)
		after := p.norm.Health()
		if len(busy) != 3 || after.Busy-before.Busy != time.Second || after.Waited-before.Waited != time.Second ||
			after.Calls != before.Calls+3 {
			t.Errorf("%s: it claims hours of a second: %v, %+v", name, busy, after)
		}
	}
}

// TestAPluginThatClaimsProgressIsEnded all the same, as it may go on with that for ever.
func TestAPluginThatClaimsProgressIsEnded(t *testing.T) {
	counted(t)
	o := quiet(Options{})
	o.CallTimeout = 50 * time.Millisecond
	p := openForSeries(t, o)
	for range 2 {
		calls, want := chain(t, p.host, p.output, "", "hang once", "")
		if p.proc != nil {
			p.proc.link = &claiming{doorbell: p.proc.link.(*doorbell)}
		}
		if n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls), nil); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		if !bytes.Equal(calls[2].Out[0].Data, want) {
			t.Error("the last output is another than one by one")
		}
	}
	if h := p.norm.Health(); h.Deaths == 0 {
		t.Error("what hung was not ended")
	}
}

// claiming is the doorbell of a plugin that says now this and now that of what is done, until it is asked no more.
type claiming struct {
	*doorbell
	asked int
}

func (c *claiming) finished() int {
	if c.control.Closed() {
		return c.doorbell.finished()
	}
	c.asked++
	return c.asked % 2
}

// TestAPluginThatDiesWhenItIsBound for a series is dealt with as one that is alone, and its neighbours are not blamed.
func TestAPluginThatDiesWhenItIsBound(t *testing.T) {
	needDoorbell(t)
	p := openRole(t, "dies_in_bind", quiet(Options{Env: []string{countDir + "=" + t.TempDir()}}))
	host, err := quiet(Options{}).NewMemory("host", 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	calls, want := chain(t, host, p.output, "", "", "")
	for _, c := range calls {
		p.shareAll(t, c) // nothing is in the way of a series but binding
	}
	if n, err := p.instance.RunSeries(t.Context(), stepsOf(p.norm, calls), nil); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if !bytes.Equal(calls[2].Out[0].Data, want) {
		t.Error("the last output is another than the reference's")
	}
	p.wantHealth(t, core.Health{Calls: 3, Deaths: 4, Repeats: 2, Fallbacks: 3})
}

// TestACancelledSeriesKeepsItsProcess: it ends behind the call that runs.
func TestACancelledSeriesKeepsItsProcess(t *testing.T) {
	times := counted(t)
	o := quiet(Options{})
	o.cancelGrace = time.Hour
	p := openForSeries(t, o)
	calls, _ := chain(t, p.host, p.output, "", "until told", "")
	for _, c := range calls {
		p.shareAll(t, c)
	}
	p.mustForward(t, "") // binds
	behind := calls[2].Out[1].Data
	for i := range behind {
		behind[i] = 0x77
	}
	pid, bell := p.pid(), p.bell(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		eventually(t, "the call", func() bool { return times("until told") == 1 })
		cancel()
		eventually(t, "the word that no more is to begin", bell.IsStopped)
		tell(t)
	})
	if _, err := p.instance.RunSeries(ctx, stepsOf(p.norm, calls), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	wg.Wait()
	if behind[0] != 0x77 {
		t.Error("the call behind it has run")
	}
	p.mustForward(t, "")
	if p.pid() != pid {
		t.Error("the process was ended")
	}
}
