package memory

import (
	"runtime/debug"
	"testing"
)

// TestWhoSetsGOGCHasIt: otherwise a plugin collects its garbage early, and who verifies kernels late.
func TestWhoSetsGOGCHasIt(t *testing.T) {
	const before = 77
	for _, tt := range []struct {
		variable string
		set      func()
		want     int
	}{{"", Save, saved}, {"", Spend, spent}, {"77", Save, before}, {"off", Spend, before}} {
		t.Setenv("GOGC", tt.variable)
		was := debug.SetGCPercent(before)
		tt.set()
		if got := debug.SetGCPercent(was); got != tt.want {
			t.Errorf("GOGC=%s: garbage of %d%%, want %d%%", tt.variable, got, tt.want)
		}
	}
}
