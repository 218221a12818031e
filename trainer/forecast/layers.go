package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
)

// nominal are the ceilings by which times are compared with each other, which hardly depends on them.
var nominal = ceiling.Ceilings{Threads: 1, Bandwidth: 20e9, Products: 100e9}

// Selective is New with gradient checkpointing of some layers: a set that makes the run no larger than limit and that
// takes as little time as can be found, or, where no set is enough, one that spares the most. Layers are taken in two
// orders, as few as are enough: those first that spare the most bytes for the time they take to be computed again, and
// simply the first ones, for the backward pass comes to them when what the others have kept is no longer in memory. It
// returns the layers' numbers, none for no checkpointing, and the share by which they make a step longer, by its
// arithmetic.
func Selective(m *models.Model, mem core.Memory, r Run, limit int64) (f *Forecast, layers []int, longer float64,
	err error) {
	r.GradientCheckpointing, r.CheckpointLayers = false, nil
	none, err := New(m, mem, r)
	if err != nil || none.Bytes() <= limit {
		return none, nil, 0, err
	}
	r.GradientCheckpointing = true
	all, err := New(m, mem, r)
	if err != nil {
		return nil, nil, 0, err
	}
	cheapest := none.worthAgain(all)
	for _, order := range [][]int{cheapest, slices.Sorted(slices.Values(cheapest))} {
		g, n, err := fewest(m, mem, r, order, limit)
		if err != nil {
			return nil, nil, 0, err
		}
		if f == nil || g.Bytes() <= limit && (f.Bytes() > limit || g.nominalStep() < f.nominalStep()) {
			f, layers = g, slices.Sorted(slices.Values(order[:n]))
		}
	}
	return f, layers, float64(f.nominalStep())/float64(none.nominalStep()) - 1, nil
}

// fewest finds how many of the layers, which are in an order, have to be computed again for a run to be no larger than
// limit; all where that is not enough.
func fewest(m *models.Model, mem core.Memory, r Run, order []int, limit int64) (f *Forecast, n int, err error) {
	forecasts := map[int]*Forecast{}
	with := func(n int) *Forecast {
		if forecasts[n] == nil && err == nil {
			r.GradientCheckpointing, r.CheckpointLayers = n > 0, order[:n]
			forecasts[n], err = New(m, mem, r)
		}
		return forecasts[n]
	}
	n = sort.Search(len(order), func(n int) bool { return err != nil || with(n).Bytes() <= limit })
	return with(n), n, err
}

func (f *Forecast) nominalStep() time.Duration {
	step, _ := f.Step(nominal, nominal)
	return step
}

// layer is what a layer of a decoder leaves for the backward pass.
type layer struct {
	kept  int           // bytes that stay in memory
	again time.Duration // that the rest takes to be computed again, at the nominal ceilings
}

// byLayer adds up what the paths of each layer have.
func byLayer(of map[string]autograd.Between) map[int]layer {
	sums := map[int]layer{}
	for path, b := range of {
		number := 0
		if _, err := fmt.Sscanf(path, "layers.%d", &number); err != nil {
			continue
		}
		again, _ := nominal.Floor(float64(b.Again.Bytes), b.Again.Products)
		sums[number] = layer{sums[number].kept + b.Kept, sums[number].again + again}
	}
	return sums
}

// worthAgain returns the layers that take less memory in all, where each is computed again, the cheapest first.
func (f *Forecast) worthAgain(all *Forecast) []int {
	price := map[int]float64{} // of a byte
	for number, l := range f.layers {
		if spared := l.kept - all.layers[number].kept; spared > 0 {
			price[number] = float64(all.layers[number].again-l.again) / float64(spared)
		}
	}
	return slices.SortedFunc(maps.Keys(price), func(a, b int) int {
		return cmp.Or(cmp.Compare(price[a], price[b]), cmp.Compare(a, b))
	})
}
