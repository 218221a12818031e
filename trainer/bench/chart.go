package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// colors is how many kinds of things have colours of their own; "c0" to "c7" in the
// page's style, and "other".
const colors = 8

// chart is a bar for each variant, all on one scale from zero.
type chart struct {
	Keys []key
	Bars []bar
}

// key explains a colour.
type key struct{ Class, Name string }

// bar is divided into parts from left to right.
type bar struct {
	Label, Value string
	Parts        []part
}

// part is a piece of a bar; X and Width are percentages of the scale.
type part struct {
	X, Width    float64
	Class, Text string
}

// newBar lays the amounts, one for each key, side by side on a scale up to full.
func newBar(label, value string, keys []key, amounts []float64, full float64, format func(float64) string) bar {
	b := bar{Label: label, Value: value}
	x := 0.0
	for i, a := range amounts {
		w := 100 * max(a, 0) / max(full, 1e-9)
		if w > 0 {
			b.Parts = append(b.Parts, part{X: x, Width: w, Class: keys[i].Class, Text: keys[i].Name + ": " + format(a)})
		}
		x += w
	}
	return b
}

func millis(v float64) string { return digits(v) + " ms" }

// stepChart shows the parts of the median step.
func (r *Result) stepChart() chart {
	c := chart{Keys: []key{{"c0", "forward"}, {"c1", "backward"}, {"c2", "optimizer"}}}
	full := 0.0
	for _, v := range r.Runs {
		full = max(full, v.Step.Median, v.Forward.Median+v.Backward.Median+v.Optimizer.Median)
	}
	for _, v := range r.Runs {
		c.Bars = append(c.Bars, newBar(v.Kernels, millis(v.Step.Median), c.Keys,
			[]float64{v.Forward.Median, v.Backward.Median, v.Optimizer.Median}, full, millis))
	}
	return c
}

// memoryChart shows what is planned, and below it what was in use at the peak.
func (r *Result) memoryChart() chart {
	c := chart{Keys: []key{{"c3", "parameters"}, {"c4", "optimizer"}, {"c5", "activations and gradients"}, {"other", "peak of all processes"}}}
	full := int64(1)
	for _, v := range r.Runs {
		full = max(full, v.Memory.Total, v.PeakRSS)
	}
	bytes := func(v float64) string { return unit(int64(v)) }
	for _, v := range r.Runs {
		m := v.Memory
		c.Bars = append(c.Bars, newBar(v.Kernels+", planned", unit(m.Total), c.Keys,
			[]float64{float64(m.Parameters), float64(m.Optimizer), float64(m.Program)}, float64(full), bytes))
		if v.PeakRSS > 0 {
			c.Bars = append(c.Bars, newBar(v.Kernels+", peak", unit(v.PeakRSS), c.Keys, []float64{0, 0, 0, float64(v.PeakRSS)}, float64(full), bytes))
		}
	}
	return c
}

// unit prints bytes for a reader who does not see the head of a column.
func unit(bytes int64) string {
	s := size(bytes)
	if strings.HasSuffix(s, "B") || s == "-" {
		return s
	}
	return s[:len(s)-1] + " " + s[len(s)-1:] + "iB"
}

// kernelChart shows where a mean step goes, by operation: those that take longest in any
// variant have a colour, the others are one part.
func (r *Result) kernelChart() chart {
	times := make([]map[string]float64, len(r.Runs))
	worst := map[string]float64{}
	full := 0.0
	for i, v := range r.Runs {
		times[i] = map[string]float64{}
		n := float64(max(len(v.Steps), 1))
		for _, c := range v.calls() {
			times[i][c.name()] += c.MS / n
		}
		for name, t := range times[i] {
			worst[name] = max(worst[name], t)
		}
		full = max(full, v.total()/n)
	}
	names := make([]string, 0, len(worst))
	for name := range worst {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(worst[b], worst[a]), cmp.Compare(a, b)) })
	names = names[:min(len(names), colors)]
	var c chart
	for i, name := range names {
		c.Keys = append(c.Keys, key{fmt.Sprintf("c%d", i), name})
	}
	c.Keys = append(c.Keys, key{"other", "everything else"})
	for i, v := range r.Runs {
		mean := v.total() / float64(max(len(v.Steps), 1))
		amounts, rest := make([]float64, 0, len(c.Keys)), mean
		for _, name := range names {
			amounts = append(amounts, times[i][name])
			rest -= times[i][name]
		}
		c.Bars = append(c.Bars, newBar(v.Kernels, millis(mean), c.Keys, append(amounts, rest), full, millis))
	}
	return c
}
