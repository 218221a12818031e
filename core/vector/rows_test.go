package vector_test

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// TestSumRowsDoesNotLoseSmallNumbers: 2^-24 of the first row's number is lost to a sum in float32 each time.
func TestSumRowsDoesNotLoseSmallNumbers(t *testing.T) {
	const rows, n = 1<<10 + 1, 35
	x := core.NewTensor(core.Float32, rows, n)
	v := x.Float32s()
	for i := range v {
		v[i] = 0x1p-24
		if i < n {
			v[i] = 1
		}
	}
	sum := make([]float32, n)
	vector.SumRows(sum, x)
	for i, got := range sum {
		if want := float32(1 + 0x1p-14); got != want {
			t.Errorf("column %d: %v, want %v", i, got, want)
		}
	}
}
