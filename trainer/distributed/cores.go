package distributed

import (
	"bytes"
	"runtime"
)

// Threads returns how many threads this rank has for computing: the cores that it may use, divided by the ranks that
// may use the same. A launcher that has bound the ranks to cores has shared them out already.
func (w *World) Threads() (int, error) {
	mine := affinity()
	all, err := w.Exchange("the cores of each rank", mine)
	if err != nil {
		return 0, err
	}
	sharers := 0
	for _, rank := range w.Node() {
		if bytes.Equal(all[rank], mine) {
			sharers++
		}
	}
	return max(1, runtime.NumCPU()/sharers), nil
}
