package ops

import (
	"reflect"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
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

// TestEveryFactOfAnOpVaries: whether a kernel reads a fact that has one value in all that is tried, nobody would know.
func TestEveryFactOfAnOpVaries(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			values := map[string]map[any]bool{}
			for _, f := range tried(Of(op)) {
				v := reflect.ValueOf(f)
				for i := range v.NumField() {
					name := v.Type().Field(i).Name
					if values[name] == nil {
						values[name] = map[any]bool{}
					}
					values[name][v.Field(i).Interface()] = true
				}
			}
			for name, all := range values {
				for v := range all {
					if len(all) == 1 && !reflect.ValueOf(v).IsZero() {
						t.Errorf("%s is %v in Usual, Changes, Kinds, Variants, Cases, Extremes and Axes", name, v)
					}
				}
			}
		})
	}
}

// tried are facts of all cases that an op has.
func tried(o *opdef.Op) []core.Facts {
	all := slices.Concat([]core.Facts{o.Usual}, o.Kinds, o.Variants)
	changed := func(f core.Facts, change ...func(*core.Facts)) {
		for _, c := range change {
			c(&f)
		}
		all = append(all, f)
	}
	for _, c := range o.Changes {
		changed(o.Usual, c)
	}
	for _, a := range o.Axes {
		u := opdef.Use{Facts: o.Usual}
		a.Set(&u, 3)
		changed(u.Facts)
	}
	for _, cases := range []func(core.Facts, opdef.Adder){o.Cases, o.Extremes} {
		if cases != nil {
			cases(o.Usual, func(_ string, _ int, _ opdef.Edit, change ...func(*core.Facts)) { changed(o.Usual, change...) })
		}
	}
	return all
}
