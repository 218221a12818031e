package core_test

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func gateCall(t *testing.T, ids ...int32) *core.Call {
	t.Helper()
	f := core.Facts{DType: core.Float32, Experts: 4, TopK: 2, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1,
		Scale: 1}
	c, err := core.NewCall(core.MoEGate, core.Forward, f)
	if err != nil {
		t.Fatal(err)
	}
	c.Set("logits", core.NewTensor(core.Float32, len(ids)/2, 4))
	c.Set("routing_weights", core.NewTensor(core.Float32, len(ids)/2, 2))
	c.Set("expert_ids", core.FromInt32(ids, len(ids)/2, 2))
	return c
}

func TestIDsThatPointNowhereAreFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		ids  []int32
		want string // "" for ids that are right
	}{
		{"right", []int32{0, 3, 3, 0, 1, 2}, ""},
		{"no token", nil, ""},
		{"too large", []int32{0, 3, 1, 4}, "expert_ids[1,1] = 4, which must be at least 0 and below 4"},
		{"far too large", []int32{1 << 30, 3}, "expert_ids[0,0] = 1073741824"},
		{"negative", []int32{0, 3, -1, 2}, "expert_ids[1,0] = -1"},
		{"twice in a row", []int32{0, 3, 2, 2}, "expert_ids[1,1] = 2, which that row has already"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			switch err := gateCall(t, tt.ids...).CheckReturned(); {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestEveryIntegerThatAKernelReturnsIsChecked: an op that returns integers has to say what
// they may be, since somebody will use them as indices.
func TestEveryIntegerThatAKernelReturnsIsChecked(t *testing.T) {
	for name, u := range uses() {
		for _, pass := range []core.Pass{core.Forward, core.Backward} {
			sig, err := core.NewSignature(u.op, pass, u.facts)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range sig.Out {
				if (a.DType == core.Int32 || a.DType == core.Int64) && (a.DType != core.Int32 || a.Choices == 0) {
					t.Errorf("%s %s: nothing checks the integers of %s", name, pass, a.Name)
				}
			}
		}
	}
}
