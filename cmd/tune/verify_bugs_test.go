package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/plugin"
	references "github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/plugins/linked"
)

// plugins with a planted bug each. The test binary is all of them, by the name under which it is
// started; TestVerifyCatchesPlantedBugs says what becomes of each.
func buggyPlugins() map[string]func() {
	served := map[string]func(){
		"bug_none":         func() { serveBug("bug_none", right(core.RMSNorm), noBug) },
		"bug_none_in_part": func() { serveBug("bug_none_in_part", part{Kernel: right(core.RMSNorm)}, noBug) },
		"bug_manifest":     func() { plugin.Serve("bug_manifest", "", described{part{Kernel: right(core.SwiGLU)}}) },
		"bug_two_faces": func() {
			kernels := []core.Kernel{part{Kernel: right(core.RMSNorm)}, part{Kernel: right(core.SwiGLU)}}
			if os.Getenv("TUNE_THREADS") == "1" {
				kernels = kernels[1:]
			}
			for i, k := range kernels {
				kernels[i] = renamed{k, "bug_two_faces"}
			}
			plugin.Serve("bug_two_faces", "1.0.0", kernels...)
		},
		// The second is right once the first was called.
		"bug_after_another": func() {
			called := false
			first := buggy{right(core.RMSNorm), func(run func() error, _ *core.Call) error {
				called = true
				return run()
			}}
			second := buggy{right(core.SwiGLU), bugAfter("y", func(_ *core.Call, v []float32) {
				if !called {
					clear(v)
				}
			})}
			const name = "bug_after_another"
			plugin.Serve(name, "1.0.0", renamed{first, name}, renamed{second, name})
		},
		"bug_silent":    func() { fmt.Println("hello") },
		"bug_on_demand": func() { serveBug("bug_on_demand", right(core.RMSNorm), bugOnDemand) },
	}
	bugs := plantedBugs()
	maps.Copy(bugs, processBugs())
	maps.Copy(bugs, inferenceBugs())
	maps.Copy(bugs, pagedBugs())
	for name, b := range bugs {
		served[name] = func() {
			serveBug(name, part{right(b.op), slices.Contains(inBackward, name), slices.Contains(inBFloat16, name), inUse[name]},
				b.bug)
		}
	}
	return served
}

// planted is a bug: what happens around a right call.
type planted struct {
	op  core.Op
	bug func(run func() error, c *core.Call) error
}

func serveBug(name string, of core.Kernel, bug func(func() error, *core.Call) error) {
	plugin.Serve(name, "1.0.0", buggy{of, bug})
}

func noBug(run func() error, _ *core.Call) error { return run() }

// inBackward are the bugs that are in the backward pass, and inBFloat16 those that are in that storage type.
var (
	inBackward = []string{"bug_outputs", "bug_pairing", "bug_past_the_end", "bug_race", "bug_threads", "bug_leak",
		"bug_writes_input", "bug_idle_expert", "bug_dies", "bug_hangs"}
	inBFloat16 = []string{"bug_truncates"}
)

// inUse are those uses of an op that a bug is in, where the others would take long.
var inUse = map[string]func(core.Facts) bool{
	"bug_idle_expert": func(f core.Facts) bool {
		return f.Layout == core.Packed && f.Routing == core.RoutingNormalized
	},
	"bug_window":             func(f core.Facts) bool { return f.Window > 0 },
	"bug_int8_saturates":     func(f core.Facts) bool { return f.Scaling == core.DynamicScaling },
	"bug_shared_gate_and_up": func(f core.Facts) bool { return f.Layout == core.Separate },
}

// part is a kernel with as much of another as a bug needs: in one storage type, mostly without a backward pass, and in
// some uses, unless that is nil. To verify it takes half the time, or less.
type part struct {
	core.Kernel
	backward, bfloat16 bool
	uses               func(core.Facts) bool
}

func (p part) Info() core.Info {
	i := p.Kernel.Info()
	i.DTypes = []core.DType{core.Float32}
	if p.bfloat16 {
		i.DTypes[0] = core.BFloat16
	}
	if i.Backward = i.Backward && p.backward; !i.Backward {
		i.Adds = nil
	}
	return i
}

func (p part) Supports(f core.Facts) error {
	if err := p.Kernel.Supports(f); err != nil {
		return err
	}
	if p.uses != nil && !p.uses(f) {
		return fmt.Errorf("%w: it is for other uses", core.ErrNotSupported)
	}
	return p.Info().Supports(f)
}

// right is the project's own kernel for an op, or the reference.
func right(op core.Op) core.Kernel {
	all := linked.Kernels()
	if i := slices.IndexFunc(all, func(k core.Kernel) bool { return k.Info().Op == op }); i >= 0 {
		return all[i]
	}
	return references.Single(op)
}

// buggy is a right kernel with a bug.
type buggy struct {
	core.Kernel
	bug func(run func() error, c *core.Call) error
}

func (b buggy) Forward(ctx context.Context, c *core.Call) error {
	return b.bug(func() error { return b.Kernel.Forward(ctx, c) }, c)
}

func (b buggy) Backward(ctx context.Context, c *core.Call) error {
	return b.bug(func() error { return b.Kernel.Backward(ctx, c) }, c)
}

// described says nonsense about itself.
type described struct{ core.Kernel }

func (d described) Info() core.Info {
	i := d.Kernel.Info()
	i.Summary, i.DTypes = "two\nlines", nil
	return i
}

// renamed is a kernel of another plugin.
type renamed struct {
	core.Kernel
	name string
}

func (r renamed) Info() core.Info {
	i := r.Kernel.Info()
	i.Name = r.name
	return i
}

func plantedBugs() map[string]planted {
	var calls int
	var kept [][]byte
	seen := map[string]core.Tensor{}
	done := map[string]bool{}
	return map[string]planted{
		// It drops a gradient, repeats the row before the last one, and swallows NaN, each in an output of its own.
		"bug_outputs": {core.RMSNorm, func(run func() error, c *core.Call) error {
			inRow := bugAfter("y", func(c *core.Call, v []float32) {
				if D := c.Facts.Dim; len(v) > D {
					copy(v[len(v)-D:], v[len(v)-2*D:])
				}
			})
			inGradient := bugAfter("dweight", func(_ *core.Call, v []float32) { clear(v) })
			inNaN := bugAfter("dx", func(_ *core.Call, v []float32) {
				for i := range v {
					if v[i] != v[i] {
						v[i] = 0
					}
				}
			})
			return inRow(func() error {
				return inGradient(func() error { return inNaN(run, c) }, c)
			}, c)
		}},
		"bug_gate_and_up": {core.SwiGLU, func(run func() error, c *core.Call) error {
			if c.Facts.Layout == core.Separate && c.Pass == core.Forward {
				c.In[0], c.In[1] = c.In[1], c.In[0]
			}
			return run()
		}},
		"bug_pairing": {core.RoPE, func(run func() error, c *core.Call) error {
			if c.Facts.Pairing == core.Interleaved {
				defer func(f core.Facts) { c.Facts = f }(c.Facts)
				c.Facts.Pairing = core.Half
			}
			return run()
		}},
		// It leaves the last element to whatever is there.
		"bug_unwritten": {core.SwiGLU, bugUnwritten(func(*core.Call) bool { return true })},
		// It leaves an output alone that it wrote before, in the same place for the same sizes.
		"bug_stale": {core.SwiGLU, bugUnwritten(func(c *core.Call) bool {
			key := fmt.Sprint(c.Facts, c.Pass, c.Tokens())
			defer func() { done[key] = true }()
			return done[key]
		})},
		"bug_past_the_end": {core.RMSNorm, func(run func() error, c *core.Call) error {
			err := run()
			y := c.Out[0].Data
			*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(y)), len(y))) = 1
			return err
		}},
		"bug_race": {core.RMSNorm, func(run func() error, c *core.Call) error {
			err := run()
			if err == nil && c.Pass == core.Backward && !c.Facts.Frozen {
				racingSum(c)
			}
			return err
		}},
		// Its sums depend on how many threads there are.
		"bug_threads": {core.RMSNorm, bugAfter("dweight", func(_ *core.Call, v []float32) {
			if os.Getenv("TUNE_THREADS") == "7" { // few machines have as many
				v[0] = math.Nextafter32(v[0], 100)
			}
		})},
		"bug_leak": {core.RMSNorm, func(run func() error, c *core.Call) error {
			kept = append(kept, slices.Clone(c.Output(c.Sig.Out[len(c.Sig.Out)-1].Name).Data)) // the smallest output
			return run()
		}},
		// It keeps the first input that it saw at an address, as if it were a weight.
		"bug_keeps_data": {core.SwiGLU, func(run func() error, c *core.Call) error {
			key := fmt.Sprint(c.Facts, c.Pass, c.Tokens(), unsafe.SliceData(c.In[0].Data))
			if _, ok := seen[key]; !ok {
				seen[key] = core.NewTensor(c.In[0].DType, c.In[0].Shape...)
				copy(seen[key].Data, c.In[0].Data)
			}
			c.In[0] = seen[key]
			return run()
		}},
		// It keeps a weight that has a number by the address, for as long as it lives.
		"bug_keeps_weight": {core.RMSNorm, func(run func() error, c *core.Call) error {
			w := c.Input("weight")
			if w.Content == 0 {
				return run()
			}
			key := fmt.Sprint(c.Facts, unsafe.SliceData(w.Data))
			if _, ok := seen[key]; !ok {
				seen[key] = core.NewTensor(w.DType, w.Shape...)
				copy(seen[key].Data, w.Data)
			}
			c.Set("weight", seen[key])
			return run()
		}},
		// Its tenth call with many tokens comes out otherwise, by one unit in the last place.
		"bug_counts_calls": {core.RoPE, bugAfter("q_out", func(c *core.Call, v []float32) {
			if c.Tokens() > 100 && c.Facts.DType == core.Float32 {
				if calls++; calls >= 10 {
					v[0] = math.Nextafter32(v[0], 100)
				}
			}
		})},
		"bug_writes_input": {core.SwiGLU, func(run func() error, c *core.Call) error {
			err := run()
			if c.Pass == core.Backward {
				c.In[0].Data[0]++
			}
			return err
		}},
		// It uses an input as scratch memory and puts everything back.
		"bug_borrows_input": {core.SwiGLU, func(run func() error, c *core.Call) error {
			b := c.In[0].Data
			kept := b[0]
			b[0] = ^kept
			b[0] = kept
			return run()
		}},
		"bug_bias": {core.RoPE, func(run func() error, c *core.Call) error {
			err := run()
			if c.Facts.DType == core.Float32 {
				for _, x := range c.Out {
					for i := range x.Float32s() {
						x.Float32s()[i] *= 1 + 0x1p-22
					}
				}
			}
			return err
		}},
		"bug_truncates": {core.SwiGLU, func(run func() error, c *core.Call) error { return truncated(run, c) }},
		"bug_idle_expert": {core.MoEExperts, bugAfter("ddown", func(c *core.Call, v []float32) {
			ids, size := c.Input("expert_ids").Int32s(), len(v)/c.Facts.Experts
			for e := range c.Facts.Experts {
				if !slices.Contains(ids, int32(e)) {
					v[e*size] = float32(c.Tokens())
				}
			}
		})},
		"bug_dies": {core.RMSNorm, func(run func() error, c *core.Call) error {
			if calls++; calls == 20 {
				os.Exit(3)
			}
			return run()
		}},
		"bug_hangs": {core.RMSNorm, func(run func() error, c *core.Call) error {
			if c.Pass == core.Backward {
				time.Sleep(time.Hour)
			}
			return run()
		}},
	}
}

// bugAfter changes an output that is right.
func bugAfter(output string, f func(c *core.Call, v []float32)) func(func() error, *core.Call) error {
	return func(run func() error, c *core.Call) error {
		err := run()
		if err != nil || !slices.ContainsFunc(c.Sig.Out, func(a core.Arg) bool { return a.Name == output }) {
			return err
		}
		x := c.Output(output)
		v := make([]float32, x.Elems())
		x.Load(v, 0)
		f(c, v)
		x.Store(v, 0)
		return nil
	}
}

// bugUnwritten leaves the last element of the first output as it was.
func bugUnwritten(when func(*core.Call) bool) func(func() error, *core.Call) error {
	return func(run func() error, c *core.Call) error {
		x := c.Out[0]
		last := x.Data[len(x.Data)-x.DType.Size():]
		before := slices.Clone(last)
		err := run()
		if when(c) {
			copy(last, before)
		}
		return err
	}
}

// racingSum has two goroutines add to one dweight [D] without a lock. They yield between
// reading and writing, so that they get into each other's way also where they share a
// processor.
func racingSum(c *core.Call) {
	D, dweight := c.Facts.Dim, c.Output("dweight").Float32s()
	x, dy := make([]float32, c.Tokens()*D), make([]float32, c.Tokens()*D)
	c.Input("x").Load(x, 0)
	c.Input("dy").Load(dy, 0)
	rstd := c.Input("rstd").Float32s()
	clear(dweight)
	var wg sync.WaitGroup
	for part := range 2 {
		wg.Go(func() {
			for t := part; t < c.Tokens(); t += 2 {
				for i := range dweight {
					sum := dweight[i] + dy[t*D+i]*x[t*D+i]*rstd[t]
					if i == t%D {
						runtime.Gosched()
					}
					dweight[i] = sum
				}
			}
		})
	}
	wg.Wait()
}

// truncated computes in float32 and cuts the results to bfloat16, as a plain shift does.
func truncated(run func() error, c *core.Call) error {
	if c.Facts.DType != core.BFloat16 || c.Tokens() > 100 { // many would take long
		return run()
	}
	wide := c.Facts
	wide.DType = core.Float32
	other, err := core.NewCall(c.Op, c.Pass, wide)
	if err != nil {
		return err
	}
	widen := func(to, from []core.Tensor) {
		for i, x := range from {
			to[i] = core.NewTensor(core.Float32, x.Shape...)
			x.Load(to[i].Float32s(), 0)
		}
	}
	widen(other.In, c.In)
	widen(other.Out, c.Out)
	if err := core.Run(context.Background(), right(c.Op), other); err != nil {
		return err
	}
	for i, x := range c.Out {
		for j, v := range other.Out[i].Float32s() {
			x.Uint16s()[j] = uint16(math.Float32bits(v) >> 16)
		}
	}
	return nil
}
