package kerneltest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// oneSite is a model with one rms_norm; it is its own hook.
type oneSite struct{ placed core.Kernel }

func (m *oneSite) Sites() []core.Site {
	return []core.Site{{Path: "norm", Op: core.RMSNorm, Facts: facts[core.RMSNorm], Hook: m}}
}

func (m *oneSite) Kernel() core.Kernel { return m.placed }

func (m *oneSite) Swap(k core.Kernel) error {
	m.placed = k
	return nil
}

// TestAPlanRefusesALinkedKernelThatIsWrong: one that gives zeros is not placed by auto,
// and one that is named is an error; a correct one is placed.
func TestAPlanRefusesALinkedKernelThatIsWrong(t *testing.T) {
	zeros := faulty{reference.Single(core.RMSNorm), func(_ runFunc, c *core.Call) error {
		for _, out := range c.Out {
			clear(out.Data)
		}
		return nil
	}}
	for name, tt := range map[string]struct {
		kernel  core.Kernel
		correct bool
	}{
		"zeros":     {zeros, false},
		"reference": {reference.Single(core.RMSNorm), true},
	} {
		t.Run(name, func(t *testing.T) {
			k := kerneltest.Verified(tt.kernel)
			r := core.NewRegistry()
			if err := r.Register(k); err != nil {
				t.Fatal(err)
			}
			m := &oneSite{}
			if _, err := core.ApplyDefaultKernels(t.Context(), m, r, "all"); err != nil {
				t.Fatal(err)
			}
			if (m.placed == k) != tt.correct {
				t.Errorf("all placed %v", m.placed)
			}
			_, err := core.ApplyKernel(t.Context(), k.Info().Name, &oneSite{}, r)
			if tt.correct && err != nil || !tt.correct && !errors.Is(err, core.ErrWrongResult) {
				t.Errorf("by name: error %v", err)
			}
		})
	}
}

// elsewhere is the panic of another goroutine, as package vector passes it on.
type elsewhere struct{ cause any }

func (e elsewhere) Cause() any { return e.cause }

// TestAPanicIsAWrongResult names the kernel and the case, and ends nothing.
func TestAPanicIsAWrongResult(t *testing.T) {
	f := facts[core.RMSNorm]
	for _, value := range []any{"mine", elsewhere{"mine"}} {
		k := kerneltest.Verified(faulty{reference.Single(core.RMSNorm), func(runFunc, *core.Call) error { panic(value) }})
		err := k.(core.Verifier).Verify(t.Context(), f)
		want := fmt.Sprintf("%s with %v: %v: it panics: mine", k.Info().Name, f, core.ErrWrongResult)
		if !errors.Is(err, core.ErrWrongResult) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: error %v, want one that ends in %q", value, err, want)
		}
	}
}

// Kernels with optional abilities.
type (
	reports     struct{ core.Kernel }
	reportsHas  struct{ withMemory }
	selfChecked struct{ core.Kernel }
)

func (reports) Health() core.Health                          { return core.Health{Calls: 7} }
func (reportsHas) Health() core.Health                       { return core.Health{Calls: 7} }
func (selfChecked) Verify(context.Context, core.Facts) error { return errors.New("checked itself") }

func TestVerifiedKeepsAbilities(t *testing.T) {
	plain := reference.Kernel(core.RMSNorm)
	remembers := withMemory{plain, new(counting)}
	for name, tt := range map[string]struct {
		kernel         core.Kernel
		memory, health bool
	}{
		"none":   {plain, false, false},
		"memory": {remembers, true, false},
		"health": {reports{plain}, false, true},
		"both":   {reportsHas{remembers}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := kerneltest.Verified(tt.kernel)
			if _, ok := k.(core.Verifier); !ok {
				t.Error("it cannot verify itself")
			}
			m, ok := k.(core.OutputMemory)
			if ok != tt.memory || ok && m.OutputMemory() != core.Memory(remembers.m) {
				t.Errorf("output memory: %v", ok)
			}
			h, ok := k.(core.HealthReporter)
			if ok != tt.health || ok && h.Health().Calls != 7 {
				t.Errorf("health: %v", ok)
			}
			if k.Info().Name != plain.Info().Name {
				t.Errorf("it is called %s", k.Info().Name)
			}
			if err := core.NewRegistry().Register(k); err != nil {
				t.Error(err)
			}
		})
	}
	own := kerneltest.Verified(selfChecked{plain})
	if err := own.(core.Verifier).Verify(t.Context(), core.Facts{}); err == nil || err.Error() != "checked itself" {
		t.Errorf("a kernel's own Verify was replaced: %v", err)
	}
}

// alone fails a test when it is asked for something while it does something else.
type alone struct {
	core.Kernel
	t  *testing.T
	mu sync.Mutex
}

func (a *alone) busy() (done func()) {
	if !a.mu.TryLock() {
		a.t.Error("two calls at once")
		return func() {}
	}
	for range 100 {
		runtime.Gosched() // others may come now
	}
	return a.mu.Unlock
}

func (a *alone) Forward(ctx context.Context, c *core.Call) error {
	defer a.busy()()
	return a.Kernel.Forward(ctx, c)
}

func (a *alone) Backward(ctx context.Context, c *core.Call) error {
	defer a.busy()()
	return a.Kernel.Backward(ctx, c)
}

// TestAVerifiedKernelIsCalledByOneModelAtATime: models that share a registry train at the same time, and another one
// is planned meanwhile.
func TestAVerifiedKernelIsCalledByOneModelAtATime(t *testing.T) {
	k := kerneltest.Verified(&alone{Kernel: reference.Kernel(core.RMSNorm), t: t})
	f := facts[core.RMSNorm]
	var models sync.WaitGroup
	for range 4 {
		c := kerneltest.Case{Name: "random", Op: core.RMSNorm, Facts: f, Tokens: 3}
		forward, backward, err := kerneltest.Calls(t.Context(), k, c)
		if err != nil {
			t.Fatal(err)
		}
		models.Go(func() {
			for range 50 {
				for _, c := range []*core.Call{forward, backward} {
					if err := core.Run(t.Context(), k, c); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	if err := k.(core.Verifier).Verify(t.Context(), f); err != nil {
		t.Error(err)
	}
	models.Wait()
}
