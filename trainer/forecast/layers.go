package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// nominal are the ceilings by which times are compared with each other, which hardly depends on them.
var nominal = ceiling.Ceilings{Threads: 1, Bandwidth: 20e9, Products: 100e9}

// Selective is New with gradient checkpointing of some layers, or of parts of them: a set that makes the run no larger than
// limit and that takes as little time as can be found, or, where no set is enough, one that spares the most. As few as are
// enough are taken, in several orders: those first that spare the most bytes for the time they take to be computed again,
// and simply those of the first layers, for the backward pass comes to them when what the others have kept is no longer
// in memory; of each, the parts of layers, then layers, and layers alone. It returns what the set has, none for no
// checkpointing, and the share by which it makes a step longer, by its arithmetic.
func Selective(m *models.Model, mem core.Memory, r Run, limit int64) (f *Forecast, parts []string, longer float64,
	err error) {
	r.GradientCheckpointing, r.CheckpointParts = false, nil
	none, err := New(m, mem, r)
	if err != nil || none.Bytes() <= limit {
		return none, nil, 0, err
	}
	orders, err := none.orders(m, mem, r)
	if err != nil {
		return nil, nil, 0, err
	}
	var set []part
	for _, order := range orders {
		g, n, err := fewest(m, mem, r, order, limit)
		if err != nil {
			return nil, nil, 0, err
		}
		if f == nil || g.Bytes() <= limit && (f.Bytes() > limit || g.nominalStep() < f.nominalStep()) ||
			f.Bytes() > limit && g.Bytes() < f.Bytes() {
			f, set = g, order[:n]
		}
	}
	return f, paths(set), float64(f.nominalStep())/float64(none.nominalStep()) - 1, nil
}

// fewest finds how many of the parts, which are in an order, have to be computed again for a run to be no larger than
// limit. Where all are not enough, some less may take less memory: a whole layer is in memory at once when it is
// computed again, and its parts one after the other.
func fewest(m *models.Model, mem core.Memory, r Run, order []part, limit int64) (f *Forecast, n int, err error) {
	forecasts := map[int]*Forecast{}
	with := func(n int) *Forecast {
		if forecasts[n] == nil && err == nil {
			r.GradientCheckpointing, r.CheckpointParts = n > 0, paths(order[:n])
			forecasts[n], err = New(m, mem, r)
		}
		return forecasts[n]
	}
	n = sort.Search(len(order), func(n int) bool { return err != nil || with(n).Bytes() <= limit })
	for err == nil && n > 0 && with(n).Bytes() > limit && with(n-1).Bytes() < with(n).Bytes() {
		n--
	}
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

// part is what may be computed again of a layer.
type part struct {
	layer int
	kind  string  // see nn.LayerPart
	price float64 // of a byte that it spares
}

func (p part) path() string { return nn.LayerPart(p.layer, p.kind) }

// orders returns the orders in which Selective takes parts, where f is without checkpointing. A layer comes after its
// parts, in whose place it is then.
func (f *Forecast) orders(m *models.Model, mem core.Memory, r Run) ([][]part, error) {
	var halves, layers []part
	for _, kind := range nn.PartsOfLayers() {
		r.GradientCheckpointing, r.CheckpointParts = true, nil
		for number := range f.layers {
			r.CheckpointParts = append(r.CheckpointParts, nn.LayerPart(number, kind))
		}
		all, err := New(m, mem, r)
		if err != nil {
			return nil, err
		}
		if worth := f.worthAgain(all, kind); kind == "" {
			layers = worth
		} else {
			halves = append(halves, worth...)
		}
	}
	byPrice := func(a, b part) int { return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.layer, b.layer)) }
	byLayer := func(a, b part) int { return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.price, b.price)) }
	var all [][]part
	for _, order := range []func(a, b part) int{byPrice, byLayer} {
		slices.SortFunc(halves, order)
		slices.SortFunc(layers, order)
		all = append(all, slices.Concat(halves, layers), slices.Clone(layers))
	}
	return all, nil
}

// worthAgain returns the parts of a kind that make their layer take less memory than in f, if all are computed again.
func (f *Forecast) worthAgain(all *Forecast, kind string) (worth []part) {
	for number, l := range f.layers {
		with := all.layers[number]
		if spared := l.kept - with.kept; spared > 0 {
			worth = append(worth, part{number, kind, float64(with.again-l.again) / float64(spared)})
		}
	}
	return worth
}

// paths leaves out the parts of those layers that are there as a whole.
func paths(parts []part) (all []string) {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p part) bool {
		return p.kind != "" && slices.ContainsFunc(parts, func(q part) bool { return q.layer == p.layer && q.kind == "" })
	})
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.kind, b.kind)) })
	for _, p := range parts {
		all = append(all, p.path())
	}
	return all
}
