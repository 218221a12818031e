package distributed

import (
	"bytes"
	"os"
	"runtime"
)

// Threads returns how many threads this rank has for computing: the cores that it may use, or what a control group
// leaves of them, divided by the ranks that may use the same. A launcher that has bound the ranks to cores has shared
// them out already.
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
	return share(sharers), nil
}

// share divides the cores, or as much time of them as a control group leaves, which the Go runtime knows. GOMAXPROCS
// in the environment is of one rank, and says nothing about that.
func share(sharers int) int {
	cores := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") != "" {
		cores = runtime.NumCPU()
	}
	return max(1, cores/sharers)
}
