package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// nominal are the ceilings by which times are compared with each other, which hardly depends on them.
var nominal = ceiling.Ceilings{Threads: 1, Bandwidth: 20e9, Products: 100e9}

// Selective is New with gradient checkpointing of some layers, or of parts of them: a set that makes the run no
// larger than limit and that takes as little time as can be found, or, where no set is enough, one that spares the
// most. As few as are enough are taken, in several orders: those first that spare the most bytes for the time they
// take to be computed again, and simply those of the first layers, for the backward pass comes to them when what
// the others have kept is no longer in memory; of each, the parts of layers, then layers, and layers alone. It
// returns what the set has, none for no checkpointing, and the share by which it makes a step longer, by its
// arithmetic.
func Selective(m *models.Model, mem core.Memory, r Run, limit int64) (f *Forecast, parts []string, longer float64,
	err error) {
	c := chooser{of: func(parts []string) (*Forecast, error) {
		r.GradientCheckpointing, r.CheckpointParts = len(parts) > 0, parts
		return New(m, mem, r)
	}, made: map[string]*Forecast{}, limit: limit}
	none := c.with(nil)
	if c.err != nil || none.Bytes() <= limit {
		return none, nil, 0, c.err
	}
	var set []part
	for _, order := range c.orders(none) {
		n := c.fewest(order)
		g := c.with(order[:n])
		if c.err != nil {
			return nil, nil, 0, c.err
		}
		if f == nil || g.Bytes() <= limit && (f.Bytes() > limit || g.nominalStep() < f.nominalStep()) ||
			f.Bytes() > limit && g.Bytes() < f.Bytes() {
			f, set = g, order[:n]
		}
	}
	return f, paths(set), float64(f.nominalStep())/float64(none.nominalStep()) - 1, nil
}

// chooser makes forecasts, each once.
type chooser struct {
	of    func(parts []string) (*Forecast, error)
	made  map[string]*Forecast // by the parts
	limit int64
	err   error
}

// with is the forecast with some parts computed again; an empty one after an error.
func (c *chooser) with(parts []part) *Forecast {
	all := paths(parts)
	key := strings.Join(all, " ")
	if c.made[key] == nil && c.err == nil {
		c.made[key], c.err = c.of(all)
	}
	if c.err != nil {
		return &Forecast{}
	}
	return c.made[key]
}

// fewest finds how many of the parts, which are in an order, have to be computed again for a run to be no larger
// than the limit. Where all are not enough, some less may take less memory: a whole layer is in memory at once
// when it is computed again, and its parts one after the other.
func (c *chooser) fewest(order []part) int {
	bytes := func(n int) int64 { return c.with(order[:n]).Bytes() }
	n := len(order)
	for bytes(n) > c.limit && n > 0 && bytes(n-1) < bytes(n) {
		n--
	}
	if bytes(n) > c.limit {
		return n
	}
	return sort.Search(n, func(n int) bool { return bytes(n) <= c.limit })
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

// orders returns the orders in which Selective takes parts, of a run that takes as much as none without
// checkpointing. A layer comes after its parts, in whose place it is then.
func (c *chooser) orders(none *Forecast) (all [][]part) {
	var halves, layers []part
	for _, kind := range nn.PartsOfLayers() {
		var parts []part
		for number := range none.layers {
			parts = append(parts, part{layer: number, kind: kind})
		}
		worth := none.worthAgain(c.with(parts), kind)
		if kind == "" {
			layers = worth
		} else {
			halves = append(halves, worth...)
		}
	}
	byPrice := func(a, b part) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.layer, b.layer), cmp.Compare(a.kind, b.kind))
	}
	byLayer := func(a, b part) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.price, b.price), cmp.Compare(a.kind, b.kind))
	}
	for _, order := range []func(a, b part) int{byPrice, byLayer} {
		slices.SortFunc(halves, order)
		slices.SortFunc(layers, order)
		all = append(all, slices.Concat(halves, layers), slices.Clone(layers))
	}
	return all
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
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.kind, b.kind))
	})
	for _, p := range parts {
		all = append(all, p.path())
	}
	return all
}
