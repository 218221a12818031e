package transport

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
)

func TestVerifyUsesTheConformanceKit(t *testing.T) {
	p := open(t, quiet(Options{}))
	if err := p.norm.Verify(t.Context(), normFacts()); err != nil {
		t.Error(err)
	}
	if h := p.norm.Health(); h.Calls == 0 || h.Fallbacks != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestVerifyRemembersSuccessOnly(t *testing.T) {
	result, asked := errors.New("wrong"), 0
	o := quiet(Options{Verify: func(context.Context, core.Kernel, core.Facts) error { asked++; return result }})
	o.CacheDir = filepath.Join(t.TempDir(), "cache")
	p := open(t, o)
	other := normFacts()
	other.Dim++
	steps := []struct {
		name   string
		f      core.Facts
		result error
		asked  int
	}{
		{"a failure", normFacts(), result, 1},
		{"a failure again", normFacts(), result, 2},
		{"a success", normFacts(), nil, 3},
		{"a success again", normFacts(), nil, 3},
		{"other facts", other, nil, 4},
	}
	for _, s := range steps {
		result = s.result
		if err := p.norm.Verify(t.Context(), s.f); !errors.Is(err, s.result) || asked != s.asked {
			t.Errorf("%s: error %v, asked %d times, want %d", s.name, err, asked, s.asked)
		}
	}
	if again := open(t, o); again.norm.Verify(t.Context(), normFacts()) != nil || asked != 4 {
		t.Errorf("a second process asked again: %d", asked)
	}
	records, err := filepath.Glob(filepath.Join(o.CacheDir, "*[^m]")) // not .sum
	if err != nil || len(records) != 2 {
		t.Errorf("records %q, %v", records, err)
	}
}

// TestAnotherProgramVerifiesAgain: the cases, their limits and the reference are in the
// program, and so what an older one has found correct proves nothing.
func TestAnotherProgramVerifiesAgain(t *testing.T) {
	asked := 0
	o := quiet(Options{Verify: func(context.Context, core.Kernel, core.Facts) error { asked++; return nil }})
	o.CacheDir = filepath.Join(t.TempDir(), "cache")
	for i, step := range []struct {
		program string
		asked   int
	}{{"one", 1}, {"one", 1}, {"another", 2}, {"one", 2}, {"", 3}, {"", 4}} {
		o.program = func() string { return step.program }
		if err := open(t, o).norm.Verify(t.Context(), normFacts()); err != nil || asked != step.asked {
			t.Errorf("step %d, by program %q: asked %d times, want %d; error %v", i, step.program, asked, step.asked, err)
		}
	}
}

// TestVerifyNeverAsksTheReferenceInstead: a plugin that is given up must not be found
// correct because the reference answers for it.
func TestVerifyNeverAsksTheReferenceInstead(t *testing.T) {
	counted(t)
	o := quiet(Options{})
	o.Verify = func(ctx context.Context, k core.Kernel, f core.Facts) error {
		c := makeCall(t, core.RMSNorm, core.Forward, f, nil, nil)
		c.Site = "die"
		return k.Forward(context.Background(), c)
	}
	p := open(t, o)
	if err := p.norm.Verify(t.Context(), normFacts()); !errors.Is(err, core.ErrPluginExited) {
		t.Errorf("error %v", err)
	}
	p.wantHealth(t, core.Health{Calls: 1, Deaths: 3, Repeats: 2, Copies: 12})
}
