package core_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// addTo has a call add to the outputs of these names.
func addTo(names ...string) func(*core.Call) {
	return func(c *core.Call) {
		c.Add = nil
		for _, a := range c.Sig.Out {
			c.Add = append(c.Add, slices.Repeat([]bool{slices.Contains(names, a.Name)}, a.Count)...)
		}
	}
}

// TestAcceptsTheSumsThatAKernelCanMake: each edit is of a call of moe_experts, of which a weight is three tensors.
func TestAcceptsTheSumsThatAKernelCanMake(t *testing.T) {
	experts := uses()["moe_experts"]
	info := core.Info{Name: "k", Op: core.MoEExperts, Adds: []string{"dgate", "ddown", "y"}, AddsTokens: 5}
	for name, tt := range map[string]struct {
		tokens int
		edit   func(c *core.Call)
		want   string // of the error; "" for none
	}{
		"no sums":         {6, func(*core.Call) {}, ""},
		"none are sums":   {6, addTo(), ""},
		"what it can":     {5, addTo("dgate", "ddown"), ""},
		"too many tokens": {6, addTo("dgate"), "of 6 tokens is to add to dgate, which the kernel does not say that it can"},
		"another output":  {5, addTo("dgate", "dup"), "is to add to dup, which the kernel does not say that it can"},
		"the forward pass": {5, func(c *core.Call) { *c = *newCall(t, experts, core.Forward, 5); addTo("y")(c) },
			"is to add to y, which"},
		"some of its tensors": {5, func(c *core.Call) { addTo("dgate")(c); c.Add[3] = false }, "to add to some of dgate"},
		"another number":      {5, func(c *core.Call) { c.Add = []bool{true} }, "says of 1 outputs whether to add, and has 11"},
		"another op":          {5, func(c *core.Call) { *c = *newCall(t, uses()["rope"], core.Backward, 5) }, "for moe_experts"},
	} {
		c := newCall(t, experts, core.Backward, tt.tokens)
		tt.edit(c)
		err := info.Accepts(c)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (!errors.Is(err, core.ErrBadCall) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.want)
		}
	}
}

func TestACallSaysWhichOutputsItNeedsAsTheyAre(t *testing.T) {
	sums := newCall(t, uses()["moe_experts"], core.Backward, 5)
	addTo("dup")(sums)
	for i := range sums.Out {
		if want := i >= 5 && i < 8; sums.Keeps(i) != want {
			t.Errorf("moe_experts, output %d: %t, want %t", i, !want, want)
		}
	}
	if !sums.Adding("dup") || sums.Adding("ddown") || sums.Adding("dx") {
		t.Error("the call adds to other outputs than dup")
	}
	cache := newCall(t, uses()["reshape_and_cache"], core.Forward, 5)
	if !cache.Keeps(0) || !cache.Keeps(1) || cache.Adding("k_cache") {
		t.Error("the caches of reshape_and_cache are not said to keep what is there, or are added to")
	}
}

// smallMemory has room for so many tensors.
type smallMemory struct{ room, taken int }

func (m *smallMemory) Alloc(bytes int) ([]byte, error) {
	if m.taken == m.room {
		return nil, errors.New("no more room")
	}
	m.taken++
	return make([]byte, bytes), nil
}

func (m *smallMemory) Free([]byte) { m.taken-- }

func TestJoinAddsWhatWasComputedApart(t *testing.T) {
	c := newCall(t, uses()["moe_experts"], core.Backward, 5)
	addTo("dup")(c)
	for _, x := range c.Out {
		x.Float32s()[1] = 3
	}
	m := &smallMemory{room: 2}
	if _, _, err := c.Apart(m); err == nil || m.taken != 0 {
		t.Errorf("error %v, and %d tensors are taken, want one that there is no room, and none", err, m.taken)
	}
	for _, m := range []*smallMemory{nil, {room: 3}} {
		var memory core.Memory
		if m != nil {
			memory = m
		}
		apart, free, err := c.Apart(memory)
		if err != nil {
			t.Fatal(err)
		}
		if apart.Adds() {
			t.Error("the call apart adds")
		}
		for _, x := range apart.Out {
			x.Float32s()[1] += 4
		}
		c.Join(apart)
		free()
		if m != nil && m.taken != 0 {
			t.Errorf("%d tensors are not freed", m.taken)
		}
	}
	for i, x := range c.Out { // those that are not added to are the call's own
		if got := x.Float32s()[1]; got != 11 {
			t.Errorf("output %d is %v, want 3+4+4", i, got)
		}
	}
}
