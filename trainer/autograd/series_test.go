package autograd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

// together is a process of kernels that runs series, and remembers them.
type together struct {
	runs [][]string // the passes and sites of each
	fail string     // the site at which one fails

	contents []uint64 // of the weights of the latest calls
}

func (p *together) RunSeries(ctx context.Context, steps []core.Step, took func(int, time.Duration)) (int, error) {
	var sites []string
	for i, s := range steps {
		sites = append(sites, fmt.Sprint(s.Call.Pass, " ", s.Call.Site))
		p.contents = append(p.contents, s.Call.Inputs("weight")[0].Content)
		if s.Call.Site == p.fail {
			return i, errFailed
		}
		if err := core.Run(ctx, s.Kernel, s.Call); err != nil {
			return i, err
		}
		took(i, time.Duration(i+1)*time.Nanosecond)
	}
	p.runs = append(p.runs, sites)
	return len(steps), nil
}

var errFailed = errors.New("the device is on fire")

// member is a kernel of such a process.
type member struct {
	core.Kernel
	*together
}

func (m member) Series(c *core.Call) (core.Series, core.Kernel) {
	if c.Site == "a.alone" {
		return nil, nil
	}
	return m.together, m.Kernel
}

// norms records a norm for each site, of the process that is named before its point, and an operation of the host for
// those that have none; it returns the sum.
func norms(t *testing.T, g *Graph, processes map[string]*together, sites ...string) (loss *Value, params []*Value) {
	t.Helper()
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 4, Eps: 1e-5, Cast: core.CastBeforeWeight}
	x := g.Param("x", core.FromFloat32([]float32{1, 2, 3, 4}, 1, 4))
	params = []*Value{x}
	for i, site := range sites {
		name, _, inProcess := strings.Cut(site, ".")
		if !inProcess {
			x = g.Apply(double(4, false, nil), x.Reshape(4)).Reshape(1, 4)
			continue
		}
		k := member{reference.Kernel(core.RMSNorm), processes[name]}
		op, err := Kernel(k, core.RMSNorm, f, site, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		w := g.Param(fmt.Sprint("w", i), core.FromFloat32([]float32{1, 0.5, 2, 1.5}, 4))
		params = append(params, w)
		leave := g.Enter(site)
		x = g.Apply(op, x, w)
		leave()
	}
	return g.Apply(total(), x.Reshape(4)), params
}

// threeNorms is a program of calls of one process.
func threeNorms(t *testing.T, of *together) *Program {
	t.Helper()
	g := New(Heap{})
	loss, params := norms(t, g, map[string]*together{"a": of}, "a.1", "a.2", "a.3")
	p, err := g.Compile(loss, params...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCallsOfAProcessGoToItTogether up to what the host does between them, and what another process does.
func TestCallsOfAProcessGoToItTogether(t *testing.T) {
	a, b := &together{}, &together{}
	g := New(Heap{})
	sites := []string{"a.1", "a.2", "a.3", "host", "a.4", "b.1", "b.2", "a.alone", "a.5"}
	loss, params := norms(t, g, map[string]*together{"a": a, "b": b}, sites...)
	p, err := g.Compile(loss, params...)
	if err != nil {
		t.Fatal(err)
	}
	run(t, p)
	wantA := [][]string{{"forward a.1", "forward a.2", "forward a.3"},
		{"backward a.3", "backward a.2", "backward a.1"}}
	wantB := [][]string{{"forward b.1", "forward b.2"}, {"backward b.2", "backward b.1"}}
	if !slices.EqualFunc(a.runs, wantA, slices.Equal) || !slices.EqualFunc(b.runs, wantB, slices.Equal) {
		t.Errorf("series %v and %v, want %v and %v", a.runs, b.runs, wantA, wantB)
	}
	for _, s := range p.Stats() {
		if s.Op == string(core.RMSNorm) && s.Calls != 8 {
			t.Errorf("%d %s calls of the norms are counted, want 8", s.Calls, s.PassName())
		}
	}
	one := gradients(p, params)
	g = New(Heap{})
	loss, params = norms(t, g, map[string]*together{"a": nil, "b": nil}, sites...)
	alone, err := g.Compile(loss, params...)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range alone.tape {
		in.step = nil
	}
	run(t, alone)
	if !slices.Equal(one, gradients(alone, params)) {
		t.Error("the gradients are others than one by one")
	}
}

func gradients(p *Program, params []*Value) (all []float32) {
	for _, v := range params {
		all = append(all, p.Grad(v).Float32s()...)
	}
	return all
}

// TestAFailureInASeriesSaysWhere, and what was before it is counted.
func TestAFailureInASeriesSaysWhere(t *testing.T) {
	a := &together{fail: "a.2"}
	p := threeNorms(t, a)
	_, err := p.Forward(t.Context())
	if !errors.Is(err, errFailed) || !strings.Contains(err.Error(), "rms_norm forward at a.2") {
		t.Errorf("error %v", err)
	}
	if s := p.Stats()[0]; s.Calls != 1 {
		t.Errorf("%d calls are counted, want 1", s.Calls)
	}
}

// TestWhoIsToldOfGradientsIsToldAtOnce: a series ends behind the call that completes one.
func TestWhoIsToldOfGradientsIsToldAtOnce(t *testing.T) {
	a := &together{}
	p := threeNorms(t, a)
	var told []int
	p.OnGradient(func(param int) { told = append(told, param) })
	run(t, p)
	if want := []int{3, 2, 0, 1}; len(told) != 4 || !slices.Equal(told[:2], want[:2]) {
		t.Errorf("told of %v, want %v", told, want)
	}
	if len(a.runs) != 1 { // forward; each call of the backward pass completes a gradient
		t.Errorf("series %v", a.runs)
	}
}

// TestTimesOfASeries are those that it tells, and what is left is the first one's.
func TestTimesOfASeries(t *testing.T) {
	a := &together{}
	p := threeNorms(t, a)
	start := time.Now()
	run(t, p)
	elapsed, all := time.Since(start), time.Duration(0)
	for _, s := range p.Stats() {
		if s.Time < 0 || s.Calls > 0 && s.Time == 0 {
			t.Errorf("%s %s took %v", s.Op, s.PassName(), s.Time)
		}
		all += s.Time
	}
	if all <= 0 || all > elapsed {
		t.Errorf("all took %v of %v", all, elapsed)
	}
}

// TestAnOperationThatIsAppliedTwice has a call of its own at each place.
func TestAnOperationThatIsAppliedTwice(t *testing.T) {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 4, Eps: 1e-5, Cast: core.CastBeforeWeight}
	compute := func(k core.Kernel) []float32 {
		op, err := Kernel(k, core.RMSNorm, f, "a.1", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		g := New(Heap{})
		params := []*Value{g.Param("x", core.FromFloat32([]float32{1, 2, 3, 4}, 1, 4)),
			g.Param("v", core.FromFloat32([]float32{1, 0.5, 2, 1.5}, 4)), g.Param("w", core.FromFloat32([]float32{3, 1, 2, 0.5}, 4))}
		y := g.Apply(op, g.Apply(op, params[0], params[1]), params[2])
		p, err := g.Compile(g.Apply(total(), y.Reshape(4)), params...)
		if err != nil {
			t.Fatal(err)
		}
		run(t, p)
		return gradients(p, params)
	}
	a := &together{}
	if got, want := compute(member{reference.Kernel(core.RMSNorm), a}), compute(reference.Kernel(core.RMSNorm)); len(a.runs) != 2 ||
		!slices.Equal(got, want) {
		t.Errorf("gradients %v in %d series, want %v", got, len(a.runs), want)
	}
}

// TestASeriesHasTheContentsOfItsTime: a kernel that keeps what it made of a weight asks for nothing else.
func TestASeriesHasTheContentsOfItsTime(t *testing.T) {
	a := &together{}
	g := New(Heap{})
	loss, params := norms(t, g, map[string]*together{"a": a}, "a.1", "a.2")
	contents := []uint64{core.NewContent(), core.NewContent()}
	for i := range contents {
		params[1+i].Named(&contents[i])
	}
	p, err := g.Compile(loss, params...)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a.contents = nil
		run(t, p)
		if want := []uint64{contents[0], contents[1], contents[1], contents[0]}; !slices.Equal(a.contents, want) {
			t.Errorf("contents %v, want %v", a.contents, want)
		}
		contents[0], contents[1] = core.NewContent(), core.NewContent()
	}
}

// TestWhatReturnsIndicesIsNoStep: they are looked at before anybody uses them.
func TestWhatReturnsIndicesIsNoStep(t *testing.T) {
	f := core.Facts{DType: core.Float32, Experts: 4, TopK: 2, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1, Scale: 1}
	op, err := Kernel(member{reference.Kernel(core.MoEGate), &together{}}, core.MoEGate, f, "gate", 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if op.Step != nil || op.Backward.Step == nil {
		t.Errorf("a step forward: %v, backward: %v", op.Step != nil, op.Backward.Step != nil)
	}
	if op, err = Kernel(reference.Kernel(core.MoEGate), core.MoEGate, f, "gate", 1, 0); err != nil || op.Backward.Step != nil {
		t.Error("a kernel without a process has steps", err)
	}
}
