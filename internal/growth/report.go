package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed98097648/tune/internal/ceiling"
	"github.com/seed98097648/tune/trainer/bench"
)

// point is what was measured at one size, and what the arithmetic says of it.
type point struct {
	size    int
	ms      float64  // the median step
	floor   float64  // the least it could take by the ceilings, in ms
	bytes   int64    // in use by the program and its plugins
	planned int64    // 16 for each parameter and the planned activations
	kernels []string // that the model had
}

// newPoint keeps of a run what counts here. Times of a run in which the reference stood in
// for a kernel would not be the kernels', so it is an error.
func newPoint(n int, m bench.Measured, limits ceiling.Ceilings) (point, error) {
	switch {
	case m.Fallbacks > 0:
		return point{}, fmt.Errorf("the reference stood in for a kernel in %d calls", m.Fallbacks)
	case m.PeakRSS == 0:
		return point{}, errors.New("the memory in use is unknown: run this on Linux")
	}
	return point{n, m.Step.Median, floor(m, limits), m.PeakRSS, m.Memory.Total,
		slices.Sorted(maps.Keys(m.KernelsApplied))}, nil
}

// floor returns the least time of a mean step in ms: that of every kind of operation, by
// the ceilings of the machine, one after the other.
func floor(m bench.Measured, limits ceiling.Ceilings) float64 {
	total := time.Duration(0)
	for _, c := range slices.Concat(m.KernelCalls, m.PlainCalls, []bench.Call{m.Update}) {
		d, _ := limits.Floor(float64(c.Work.Bytes), c.Work.Flops())
		total += d
	}
	return total.Seconds() * 1000 / float64(len(m.Steps))
}

// curve is one quantity of a sweep; all slices are as long.
type curve struct {
	sizes, measured, predicted []float64
}

// report is the outcome of a sweep.
type report struct {
	sweep
	time, memory curve
	kernels      []string
	apart        float64 // MiB that were taken off every measured memory
	scale        float64 // what the floors were multiplied with
}

// newReport fits the two constants: the predicted time passes through the largest size,
// because there is no size at which a step reaches the ceilings; the predicted memory
// passes through the smallest, because what the processes take before any model is set up
// is the same for all.
func newReport(w sweep, points []point) (report, error) {
	const mib = 1 << 20
	first, last := points[0], points[len(points)-1]
	r := report{sweep: w, kernels: last.kernels, apart: float64(first.bytes-first.planned) / mib,
		scale: last.ms / last.floor}
	for _, p := range points {
		if memory := float64(p.bytes)/mib - r.apart; memory > 0 && p.ms > 0 && p.floor > 0 {
			r.time.add(p.size, p.ms, p.floor*r.scale)
			r.memory.add(p.size, memory, float64(p.planned)/mib)
			continue
		}
		return report{}, fmt.Errorf("%s %d: not a positive time, work or memory: %+v", w.name, p.size, p)
	}
	return r, nil
}

func (c *curve) add(size int, measured, predicted float64) {
	c.sizes = append(c.sizes, float64(size))
	c.measured = append(c.measured, measured)
	c.predicted = append(c.predicted, predicted)
}

// fitted is how many of the largest sizes a slope is fitted to: small ones are mostly the
// constant part of a step.
const fitted = 3

// slopes returns the exponents with which the quantity grows over the largest sizes.
func (c curve) slopes() (measured, predicted float64) {
	from := max(0, len(c.sizes)-fitted)
	return slope(c.sizes[from:], c.measured[from:]), slope(c.sizes[from:], c.predicted[from:])
}

// growth says the slopes in words.
func (c curve) growth() string {
	if len(c.sizes) < 2 {
		return "no slope of a single size"
	}
	m, p := c.slopes()
	return fmt.Sprintf("slope %.2f measured, %.2f predicted", m, p)
}

// slope is the b of y = a x^b by least squares between the logarithms, NaN for fewer than
// two different x.
func slope(x, y []float64) float64 {
	meanX, meanY, n := 0.0, 0.0, float64(len(x))
	for i := range x {
		meanX += math.Log(x[i]) / n
		meanY += math.Log(y[i]) / n
	}
	xy, xx := 0.0, 0.0
	for i := range x {
		dx := math.Log(x[i]) - meanX
		xy += dx * (math.Log(y[i]) - meanY)
		xx += dx * dx
	}
	return xy / xx
}

// table returns the sweep in Markdown.
func (r report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s. Kernels: %s.\n\n", r.title, strings.Join(r.kernels, ", "))
	fmt.Fprintf(&b, "| %s | step ms | predicted ms | memory MiB | predicted MiB |\n|---:|---:|---:|---:|---:|\n", r.axis)
	for i, n := range r.time.sizes {
		fmt.Fprintf(&b, "| %.0f | %.1f | %.1f | %.1f | %.1f |\n", n, r.time.measured[i], r.time.predicted[i],
			r.memory.measured[i], r.memory.predicted[i])
	}
	fmt.Fprintf(&b, "\nTime: %s. Memory: %s.\n%s\n", r.time.growth(), r.memory.growth(), strings.Join(r.caption(), "\n"))
	return b.String()
}

// caption says what the predictions are.
func (r report) caption() []string {
	return []string{
		fmt.Sprintf("Slopes are of the last %d sizes. Time is predicted as the floor that bytes and operations have by "+
			"the ceilings of the machine,", min(fitted, len(r.time.sizes))),
		fmt.Sprintf("times %.2f so that the largest size agrees. Memory is predicted as 16 bytes for each parameter and "+
			"the planned activations,", r.scale),
		fmt.Sprintf("without scratch memory inside of kernels; measured is without %.0f MiB, so that the smallest size "+
			"agrees.", r.apart),
	}
}
