package crosscheck

import "github.com/seed98097648/tune/core"

// addBefore makes what a call that adds has written apart what its outputs are to be.
func addBefore(c, apart *core.Call) {
	for i, add := range c.Add {
		if add {
			want := apart.Out[i].Float32s()
			for j, v := range c.Out[i].Float32s() {
				want[j] += v
			}
		}
	}
}

// compareSums compares the outputs that a call has added to with what they are to be, to the bit.
func compareSums(c, want *core.Call) error {
	at := 0
	for _, a := range c.Sig.Out {
		for i := at; i < at+a.Count; i++ {
			if !c.Add[i] {
				continue
			}
			want := want.Out[i].Float32s()
			for j, v := range c.Out[i].Float32s() {
				if v != want[j] && (v == v || want[j] == want[j]) { // NaN meets NaN
					return worst{tensor: a.Name, at: j, got: float64(v), want: float64(want[j])}.mismatch(c)
				}
			}
		}
		at += a.Count
	}
	return nil
}
