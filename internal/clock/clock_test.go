package clock

import (
	"testing"
	"time"
)

// TestTheClockDoesNotStandStill: it goes on in steps of far less than a call of a kernel takes, and as fast as package
// time's.
func TestTheClockDoesNotStandStill(t *testing.T) {
	start, moments := time.Now(), []Moment{Now()}
	for time.Since(start) < 100*time.Millisecond {
		if now := Now(); now != moments[len(moments)-1] {
			moments = append(moments, now)
		}
	}
	least := time.Hour
	for i, m := range moments[1:] {
		step := m.Sub(moments[i])
		if step < 0 {
			t.Fatalf("it goes back by %v", -step)
		}
		least = min(least, step)
	}
	if least > 10*time.Microsecond {
		t.Errorf("its least step is %v", least)
	}
	took, want := moments[len(moments)-1].Sub(moments[0]), time.Since(start)
	if off := took - want; off < -50*time.Millisecond || off > 50*time.Millisecond {
		t.Errorf("%v by it are %v", took, want)
	}
}
