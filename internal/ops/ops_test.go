package ops

import (
	"reflect"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
)

// mayLack are the fields of an op that it need not have.
var mayLack = []string{"Changes", "Positions", "Fill", "Indices", "Settle", "Zeros", "Cases", "Stack",
	"TokenWise", "Borders", "Verify", "Batch", "LossToo", "Recordings", "Recorded", "Fast"}

// TestEveryOpSaysAllThatEveryOpHas: what an op leaves out, nothing tries, and nobody misses.
func TestEveryOpSaysAllThatEveryOpHas(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			o := reflect.ValueOf(*Of(op))
			for i := range o.NumField() {
				if name := o.Type().Field(i).Name; o.Field(i).IsZero() && !slices.Contains(mayLack, name) {
					t.Errorf("it has no %s", name)
				}
			}
		})
	}
	if len(all) != len(core.Ops()) {
		t.Errorf("%d ops are known, %d have a contract", len(all), len(core.Ops()))
	}
}
