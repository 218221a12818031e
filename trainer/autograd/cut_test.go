package autograd

import "testing"

func TestHowManyRowsAPartHas(t *testing.T) {
	for _, c := range []struct {
		shape      []int
		unit, want int // 0: it is not cut
	}{
		{[]int{151936, 1024}, 1, 1024},       // a head: no more rows, though they are 4 MiB
		{[]int{151936, 1024}, 256, 1024},     // whose updates want whole blocks
		{[]int{4096, 3072}, 1, 512},          // 8 MiB would be 682
		{[]int{4096, 11008}, 1, 190},         // as many as are 8 MiB
		{[]int{4096, 11008}, 3 * 11008, 189}, // of which updates want three at a time
		{[]int{32, 768, 512}, 1, 5},          // experts
		{[]int{4, 3 << 20}, 1, 1},            // rows of more than a part
		{[]int{1024, 1024}, 1, 0},
		{[]int{4096}, 1, 0},
		{[]int{151936, 1024}, 0, 0}, // of which only all are of use
	} {
		g := &parting{updates: &Updates{Unit: func(int) int { return c.unit }}, grad: &slot{spec: Float32(c.shape...)}}
		if cut := g.cut(); cut != (c.want > 0) || cut && g.step != c.want {
			t.Errorf("%v, %d at a time: cut %v, %d rows, want %d", c.shape, c.unit, cut, g.step, c.want)
		}
	}
}
