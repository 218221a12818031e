package trainer

import (
	"strings"
	"testing"
)

func TestDiskSpaceIsCheckedBeforeTheRun(t *testing.T) {
	const gib = 1 << 30
	need := diskNeed{model: 2 * gib, checkpoint: 10 * gib}
	for _, tt := range []struct {
		name                  string
		every, keep           int
		free                  uint64
		wantWarning, wantFail string
	}{
		{"no checkpoints, enough", 0, 2, 2 * gib, "", ""},
		{"no checkpoints, too little", 0, 2, 2*gib - 1, "", "has 2 GiB free, but the model takes 2 GiB: make room"},
		{"not even one", 10, 2, 11 * gib, "", "has 11 GiB free, but the model takes 2 GiB, a checkpoint 10 GiB: make room"},
		{"not all", 10, 2, 41 * gib, "the run may need 42 GiB", ""},
		{"all", 10, 2, 42 * gib, "", ""},
		{"few steps", 50, 9, 42 * gib, "", ""},
		{"every one is kept", 10, 0, 121 * gib, "the run may need 122 GiB", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Default()
			c.Out, c.Checkpoints.SaveEvery, c.Checkpoints.Keep = "out", tt.every, tt.keep
			warning, err := need.check(c, 100, tt.free)
			for _, got := range []struct {
				err  error
				want string
			}{{warning, tt.wantWarning}, {err, tt.wantFail}} {
				if (got.err == nil) != (got.want == "") || got.err != nil && !strings.Contains(got.err.Error(), got.want) {
					t.Errorf("got %v, want %q", got.err, got.want)
				}
			}
		})
	}
}
