package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Series are points from left to right, all of their numbers finite.
type Series struct {
	Name, Class string
	X, Y        []float64
	Dots        bool // a dot for each point
	Faint       bool // behind the others, and without a key
}

// Axes say how a plot is scaled and written.
type Axes struct {
	Label string               // what the plot shows, for who cannot see it
	X     string               // what X counts, such as "step"
	Y     func(float64) string // writes a value; nil for Number
	Tick  func(float64) string // writes a value at the axis; nil for Y
	Zero  bool                 // the scale begins at zero
}

// Plot are curves over one scale, on a square of 100 by 100 that the page stretches.
type Plot struct {
	Label, Unit string
	Keys        []Key // of more than one curve
	Curves      []Curve
	X, Y        []Tick
}

// Tick is a place on an axis, in percent from the left or from the top.
type Tick struct {
	At     float64
	Text   string
	Anchor string // of the text
}

// Curve is a series: Line is an SVG path through its points, Dots a path of points. Xs and
// Ys are the same points as text, for the script.
type Curve struct {
	Class, Name, Line, Dots, Xs, Ys string
	Faint                           bool
}

// most is how many points of a curve are drawn.
const most = 500

// NewPlot scales the series to one plot. Series without points are left out.
func NewPlot(a Axes, series ...Series) Plot {
	if a.Y == nil {
		a.Y = Number
	}
	if a.Tick == nil {
		a.Tick = a.Y
	}
	p := Plot{Label: a.Label, Unit: a.X}
	left, right := math.Inf(1), math.Inf(-1)
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range series {
		for i := range s.X {
			left, right = min(left, s.X[i]), max(right, s.X[i])
			low, high = min(low, s.Y[i]), max(high, s.Y[i])
		}
	}
	if left > right {
		return p
	}
	if a.Zero {
		low, high = min(low, 0), max(high, 0)
	}
	if left == right {
		left, right = left-1, right+1
	}
	ys, low, high := ticks(low, high)
	for _, v := range ys {
		p.Y = append(p.Y, Tick{At: place(high, low, v), Text: a.Tick(v), Anchor: "end"})
	}
	p.X = xTicks(left, right)
	for _, s := range series {
		if len(s.X) == 0 {
			continue
		}
		p.Curves = append(p.Curves, s.curve(left, right, low, high, a.Y))
		if !s.Faint {
			p.Keys = append(p.Keys, Key{s.Class, s.Name})
		}
	}
	if len(p.Keys) < 2 {
		p.Keys = nil
	}
	return p
}

// place returns where v lies on the way from one value to another, in percent.
func place(from, to, v float64) float64 { return 100 * math.Abs(v-from) / math.Abs(to-from) }

func (s Series) curve(left, right, low, high float64, format func(float64) string) Curve {
	c := Curve{Class: s.Class, Name: s.Name, Faint: s.Faint}
	var line, dots, xs, ys strings.Builder
	for n, i := range thin(s.Y) {
		x, y := place(left, right, s.X[i]), place(high, low, s.Y[i])
		step, gap := "L", " "
		if n == 0 {
			step, gap = "M", ""
		}
		fmt.Fprintf(&line, "%s%.2f %.2f", step, x, y)
		if s.Dots {
			fmt.Fprintf(&dots, "M%.2f %.2fh0", x, y) // a line without length has round ends all the same
		}
		xs.WriteString(gap + Number(s.X[i]))
		ys.WriteString(gap + strings.ReplaceAll(format(s.Y[i]), " ", "\u00a0"))
	}
	c.Line, c.Dots, c.Xs, c.Ys = line.String(), dots.String(), xs.String(), ys.String()
	return c
}

// thin picks the points of a long curve that matter: the first and the last, and of each
// stretch between the lowest and the highest.
func thin(y []float64) []int {
	n := len(y)
	var picked []int
	if n <= most {
		for i := range y {
			picked = append(picked, i)
		}
		return picked
	}
	picked = append(picked, 0)
	const stretches = most/2 - 1
	for k := range stretches {
		from, to := 1+k*(n-2)/stretches, 1+(k+1)*(n-2)/stretches
		low, high := from, from
		for i := from; i < to; i++ {
			if y[i] < y[low] {
				low = i
			}
			if y[i] > y[high] {
				high = i
			}
		}
		picked = append(picked, min(low, high))
		if low != high {
			picked = append(picked, max(low, high))
		}
	}
	return append(picked, n-1)
}

// ticks returns round values with a range around low and high that begins and ends with one. They are as far apart as
// Number tells them apart.
func ticks(low, high float64) (at []float64, from, to float64) {
	if low == high {
		pad := max(math.Abs(low)/10, 1e-9)
		low, high = low-pad, high+pad
	}
	const wanted = 4
	least := math.Pow(10, math.Floor(math.Log10(max(-low, high)))-3)
	step := max(round125((high-low)/wanted), least)
	first, last := math.Floor(low/step+1e-9), math.Ceil(high/step-1e-9)
	for k := first; k <= last; k++ {
		at = append(at, k*step)
	}
	return at, first * step, last * step
}

// xTicks returns the whole numbers to write below a plot.
func xTicks(left, right float64) []Tick {
	const wanted, edge = 5, 6 // a text at the edge of the plot must not leave it
	step := max(round125((right-left)/wanted), 1)
	var all []Tick
	for v := math.Ceil(left/step) * step; v <= right; v += step {
		t := Tick{At: place(left, right, v), Text: Number(v), Anchor: "middle"}
		switch {
		case t.At < edge:
			t.Anchor = "start"
		case t.At > 100-edge:
			t.Anchor = "end"
		}
		all = append(all, t)
	}
	return all
}

// round125 returns the smallest of 1, 2 or 5 times a power of ten that is not below v.
func round125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// Number writes a number with four digits, without what they can do without: 0.25, 12340,
// 2e-5.
func Number(v float64) string {
	if math.Abs(v) >= 1000 && math.Abs(v) < 1e9 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	s := strconv.FormatFloat(v, 'g', 4, 64)
	if mantissa, exponent, ok := strings.Cut(s, "e"); ok {
		n, _ := strconv.Atoi(exponent) // which FormatFloat has written
		return mantissa + "e" + strconv.Itoa(n)
	}
	return s
}
