package distributed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestAFailureIsToldToAll: at whatever point of the run the others are, their next exchange is the error, and who has
// failed waits until all have come to their ends.
func TestAFailureIsToldToAll(t *testing.T) {
	for _, text := range []string{"its disk is full", strings.Repeat("a long story ", 100), ""} {
		for _, fail := range [][]int{{0}, {1}, {2, 0}, {0, 1, 2}} {
			ranks(t, []string{"a", "b", "b"}, func(w *World) error {
				if slices.Contains(fail, w.rank) {
					return w.Fail(text)
				}
				_, err := w.Exchange(fmt.Sprint("what rank ", w.rank, " is about"), make([]byte, 1000*w.rank))
				for _, rank := range fail {
					if err == nil || !strings.Contains(err.Error(), w.Name(rank)+": "+text) {
						return fmt.Errorf("rank %d has failed: %v", rank, err)
					}
				}
				if _, is := errors.AsType[*Failure](err); !is {
					return fmt.Errorf("%T is no failure of another rank", err)
				}
				return w.Fail(err.Error())
			})
		}
	}
}
