package chart

import (
	"cmp"
	"maps"
	"slices"
)

// Bars is a bar for each of several things, all on one scale from zero.
type Bars struct {
	Keys []Key
	Bars []Bar
}

// Bar is divided into parts from left to right.
type Bar struct {
	Label, Value string
	Parts        []Part
}

// Part is a piece of a bar; X and Width are percentages of the scale.
type Part struct {
	X, Width    float64
	Class, Text string
}

// NewBar lays the amounts, one for each key, side by side on a scale up to full.
func NewBar(label, value string, keys []Key, amounts []float64, full float64, format func(float64) string) Bar {
	b := Bar{Label: label, Value: value}
	x := 0.0
	for i, a := range amounts {
		w := 100 * max(a, 0) / max(full, 1e-9)
		if w > 0 {
			b.Parts = append(b.Parts, Part{X: x, Width: w, Class: keys[i].Class, Text: keys[i].Name + ": " + format(a)})
		}
		x += w
	}
	return b
}

// Sum is a bar whose parts have names.
type Sum struct {
	Label string
	Parts map[string]float64
	Total float64 // of all parts, and perhaps more
}

// NewSums divides bars into the parts that are largest in any of them, each in a colour of its
// own, and everything else.
func NewSums(sums []Sum, format func(float64) string) Bars {
	largest, full := map[string]float64{}, 0.0
	for _, s := range sums {
		for name, v := range s.Parts {
			largest[name] = max(largest[name], v)
		}
		full = max(full, s.Total)
	}
	names := slices.SortedFunc(maps.Keys(largest), func(a, b string) int {
		return cmp.Or(cmp.Compare(largest[b], largest[a]), cmp.Compare(a, b))
	})
	names = names[:min(len(names), Colors)]
	var all Bars
	for i, name := range names {
		all.Keys = append(all.Keys, Key{Class(i), name})
	}
	all.Keys = append(all.Keys, Key{Other, "everything else"})
	for _, s := range sums {
		var amounts []float64
		rest := s.Total
		for _, name := range names {
			amounts, rest = append(amounts, s.Parts[name]), rest-s.Parts[name]
		}
		all.Bars = append(all.Bars, NewBar(s.Label, format(s.Total), all.Keys, append(amounts, rest), full, format))
	}
	return all
}
