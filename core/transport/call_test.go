package transport

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

func TestCallGivesTheReferencesBits(t *testing.T) {
	cases := []struct {
		name string
		op   core.Op
		f    core.Facts
	}{
		{"rms_norm", core.RMSNorm, normFacts()},
		{"moe_experts of 4", core.MoEExperts, moeFacts(4)},
		{"moe_experts of 300", core.MoEExperts, moeFacts(300)},
	}
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		for _, tc := range cases {
			for _, pass := range []core.Pass{core.Forward, core.Backward} {
				t.Run(tc.name+" "+pass.String(), func(t *testing.T) {
					k := p.norm
					if tc.op == core.MoEExperts {
						k = p.moe
					}
					if k == nil {
						t.Skip("the plugin in C has no such kernel")
					}
					c := makeCall(t, tc.op, pass, tc.f, p.host, k.OutputMemory())
					for range 3 {
						if err := core.Run(context.Background(), k, c); err != nil {
							t.Fatal(err)
						}
					}
					wantReference(t, c)
				})
			}
		}
		for _, k := range p.kernels {
			h := k.Health()
			if h.Copies != 0 || h.Deaths != 0 || h.Fallbacks != 0 || h.Calls == 0 {
				t.Errorf("health of %s: %+v", k.info.Op, h)
			}
			if h.Busy <= 0 || h.Waited <= h.Busy {
				t.Errorf("%s: its callers waited %v, for %v of that it ran; both must be known, and crossing takes time",
					k.info.Op, h.Waited, h.Busy)
			}
		}
	})
}

// TestAPluginThatKnowsGRPCOnlyIsCalledSo, as those are that other libraries or earlier versions serve.
func TestAPluginThatKnowsGRPCOnlyIsCalledSo(t *testing.T) {
	for _, only := range []bool{false, true} {
		p := open(t, quiet(Options{Portable: true, grpcOnly: only}))
		for _, pass := range []core.Pass{core.Forward, core.Backward} {
			c := makeCall(t, core.RMSNorm, pass, normFacts(), p.host, p.output)
			if err := core.Run(context.Background(), p.norm, c); err != nil {
				t.Fatal(err)
			}
			wantReference(t, c)
		}
		if _, is := p.proc.link.(*rpcLink); is != only {
			t.Errorf("gRPC only %v: the link is a %T", only, p.proc.link)
		}
	}
}

func TestTensorsOutsideSharedMemoryAreCopied(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		var log lockedBuffer
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		p := open(t, o)
		before := p.output.InUse()
		heap := makeCall(t, core.RMSNorm, core.Forward, normFacts(), nil, nil)
		if err := p.norm.Forward(context.Background(), heap); err != nil {
			t.Fatal(err)
		}
		wantReference(t, heap)
		if h := p.norm.Health(); h.Copies != 4 {
			t.Errorf("%d copies, want the 2 inputs and 2 outputs", h.Copies)
		}
		// The host's memory serves inputs, but the plugin cannot write to it.
		host := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.host)
		if err := p.norm.Forward(context.Background(), host); err != nil {
			t.Fatal(err)
		}
		wantReference(t, host)
		if h := p.norm.Health(); h.Copies != 6 {
			t.Errorf("%d copies, want 2 outputs more", h.Copies)
		}
		if now := p.output.InUse(); now != before {
			t.Errorf("%d bytes of output memory in use, %d before", now, before)
		}
		if n := strings.Count(log.String(), "make inputs by core.NewTensorIn"); n != 1 {
			t.Errorf("it was said %d times that tensors are copied, want once:\n%s", n, log.String())
		}
	})
}

// TestOutputOfOnePluginIsInputOfAnother: without a copy, and the reader cannot write it.
func TestOutputOfOnePluginIsInputOfAnother(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		first, second := open(t, o), open(t, o)
		c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), first.output, second.output)
		if err := second.norm.Forward(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		wantReference(t, c)
		if h := second.norm.Health(); h.Copies != 0 {
			t.Errorf("%d copies", h.Copies)
		}
		c.Site = "write input"
		if err := second.norm.Forward(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		wantReference(t, c)
		if h := second.norm.Health(); h.Deaths != maxDeaths || h.Fallbacks != 1 {
			t.Errorf("writing into another plugin's memory: health %+v", h)
		}
	})
}

func TestErrorsOfKernelsComeBack(t *testing.T) {
	onGoPaths(t, func(t *testing.T, o Options) {
		o.Strict, o.Threads = true, 1
		p := open(t, o)
		cases := map[string]struct {
			site string
			is   error
			text string
		}{
			"an error":      {"error", nil, "the device is on fire"},
			"a panic":       {"panic", nil, "panic: index out of luck"},
			"a worker's":    {"a worker's panic", nil, "panic: worker out of luck"},
			"its threads":   {"threads", nil, "GOMAXPROCS is 1"},
			"not supported": {"not supported", core.ErrNotSupported, "only even days"},
		}
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
				c.Site = tc.site
				err := p.norm.Forward(context.Background(), c)
				if ke, ok := errors.AsType[*core.KernelError](err); !ok || ke.Kernel != "test_kernels" || ke.Site != tc.site ||
					ke.Op != core.RMSNorm {
					t.Fatalf("error %v is not a KernelError of this call", err)
				}
				if tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(),
					tc.text) || strings.Contains(err.Error(), "its.stack") {
					t.Errorf("error %v", err)
				}
			})
		}
		if h := p.norm.Health(); h.Deaths != 0 || h.Fallbacks != 0 || h.LastError == "" {
			t.Errorf("health %+v", h)
		}
	})
}

// TestACallThatFitsNoRecordIsRefused, whoever makes it without core.Run.
func TestACallThatFitsNoRecordIsRefused(t *testing.T) {
	p := open(t, quiet(Options{}))
	many := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
	many.In = slices.Repeat(many.In[:1], wire.MaxTensors)
	deep := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
	deep.In[0].Shape = core.Shape{1, 1, 1, 1, tokens, 24}
	for says, c := range map[string]*core.Call{"16320 tensors": many, "more than 5 axes": deep} {
		if err := p.norm.Forward(t.Context(), c); !errors.Is(err, core.ErrBadCall) || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, which should say %q", err, says)
		}
	}
	p.mustForward(t, "")
}

// TestAnOutputWithoutRoomIsAnError that leaves nothing behind of the copies of other tensors.
func TestAnOutputWithoutRoomIsAnError(t *testing.T) {
	o := quiet(Options{})
	o.OutputSize = 64
	p := open(t, o)
	c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), nil, nil)
	if err := p.norm.Forward(t.Context(), c); !errors.Is(err, ErrNoRoom) {
		t.Errorf("error %v, want ErrNoRoom", err)
	}
	if n := p.output.InUse() + p.stage.memory.InUse(); n != 0 {
		t.Errorf("%d bytes are in use after it", n)
	}
}

// TestMappedFilesNeedNoCopy is the way of systems without anonymous shared memory.
func TestMappedFilesNeedNoCopy(t *testing.T) {
	p := open(t, quiet(Options{Portable: true}))
	host := shm.NewPool("host", 1<<20, shm.HostOnly, shm.NewFile)
	defer host.Close()
	c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), host, p.output)
	if err := p.norm.Forward(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	wantReference(t, c)
	if h := p.norm.Health(); h.Copies != 0 {
		t.Errorf("%d copies", h.Copies)
	}
}

func TestWhatPluginsPrintIsLogged(t *testing.T) {
	var log lockedBuffer
	p := open(t, quiet(Options{Logger: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))}))
	p.mustForward(t, "print")
	eventually(t, "the log record", func() bool {
		return strings.Contains(log.String(), `level=DEBUG msg="a word from the kernel"`)
	})
}

// TestTheStackOfAWorkersPanicIsLogged: the kernel's own stack ends where it waited for the worker.
func TestTheStackOfAWorkersPanicIsLogged(t *testing.T) {
	var log lockedBuffer
	p := open(t, quiet(Options{Strict: true,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}))
	c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
	c.Site = "a worker's panic"
	if err := p.norm.Forward(context.Background(), c); err == nil {
		t.Error("no error")
	}
	eventually(t, "both stacks", func() bool {
		return strings.Contains(log.String(), "its.stack()") && strings.Contains(log.String(), ".behave(")
	})
}

func TestNotSupportedFallsBack(t *testing.T) {
	p := open(t, quiet(Options{}))
	c := makeCall(t, core.RMSNorm, core.Backward, normFacts(), p.host, p.output)
	c.Site = "not supported"
	if err := p.norm.Backward(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	wantReference(t, c)
	if h := p.norm.Health(); h.Fallbacks != 1 || h.Deaths != 0 {
		t.Errorf("health %+v", h)
	}
}

// TestFactsThatThePluginRefusesFallBack: its kernels need not look at the facts of a call,
// which nobody has asked about here.
func TestFactsThatThePluginRefusesFallBack(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, quiet(o))
		f := normFacts()
		f.Dim = 13
		c := makeCall(t, core.RMSNorm, core.Forward, f, p.host, p.output)
		if err := core.Run(t.Context(), p.norm, c); err != nil {
			t.Fatal(err)
		}
		wantReference(t, c)
		if h := p.norm.Health(); h.Fallbacks != 1 || !strings.Contains(h.LastError, "bad luck") {
			t.Errorf("health %+v", h)
		}
	})
}

func TestBadCallsAreRefused(t *testing.T) {
	p := open(t, quiet(Options{}))
	good := func() *core.Call {
		return makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.output, p.output)
	}
	cases := map[string]func(c *core.Call){
		"missing tensor":         func(c *core.Call) { c.Out[0] = core.Tensor{} },
		"other op":               func(c *core.Call) { c.Op = core.SwiGLU },
		"other pass":             func(c *core.Call) { c.Pass = core.Backward },
		"output over the input":  func(c *core.Call) { c.Out[0].Data = c.In[0].Data },
		"output over the weight": func(c *core.Call) { c.Out[1].Data = c.In[1].Data[:len(c.Out[1].Data)] },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			c := good()
			spoil(c)
			if err := p.norm.Forward(context.Background(), c); !errors.Is(err, core.ErrBadCall) {
				t.Errorf("error %v", err)
			}
		})
	}
	c := good()
	if err := p.norm.Forward(context.Background(), c); err != nil {
		t.Errorf("a good call afterwards: %v", err)
	}
	wantReference(t, c)
}

func TestSupportsAsksThePlugin(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		if err := p.norm.Supports(normFacts()); err != nil {
			t.Error(err)
		}
		f := normFacts()
		f.Dim = 13
		if err := p.norm.Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "bad luck") {
			t.Errorf("dim 13: %v", err)
		}
		if err := p.norm.Supports(core.Facts{}); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("no facts: %v", err)
		}
	})
}

func BenchmarkRoundTrip(b *testing.B) { benchmarkCall(b, Options{}) }
func BenchmarkInvoke(b *testing.B)    { benchmarkCall(b, Options{Portable: true}) }

// BenchmarkRoundTripNoSpin is better than BenchmarkRoundTrip on a busy machine.
func BenchmarkRoundTripNoSpin(b *testing.B) { benchmarkCall(b, Options{Spin: -1}) }

// benchmarkCall measures the way there and back: the kernel does nothing.
func benchmarkCall(b *testing.B, o Options) {
	p := open(b, quiet(o))
	c := makeCall(b, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
	c.Site = "nothing"
	b.ReportAllocs()
	for b.Loop() {
		if err := p.norm.Forward(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
}
