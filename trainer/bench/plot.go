package bench

import (
	"fmt"
	"strings"
)

// plot shows the steps of all variants, round by round, on a square of 100 by 100 that
// the page stretches.
type plot struct {
	Keys  []key
	Lines []curve
	Low   string // values at the bottom and the top
	High  string
	Last  int // the last round
}

// curve is a variant: Line is an SVG path through all its steps, Dots a path of points.
type curve struct{ Class, Line, Dots string }

// roundPlot scales the times so that the spread of each variant can be seen; its foot is
// zero unless all steps are alike.
func (r *Result) roundPlot() plot {
	low, high := r.Runs[0].Step.Median, 0.0
	for _, v := range r.Runs {
		for _, s := range v.Steps {
			low, high = min(low, s.Whole), max(high, s.Whole)
		}
	}
	if low < 0.7*high {
		low = 0
	} else {
		low -= 0.2 * (high - low)
	}
	high += 0.05 * (high - low)
	p := plot{Low: strings.Replace(millis(low), "0.00 ", "0 ", 1), High: millis(high), Last: len(r.Runs[0].Steps)}
	for i, v := range r.Runs {
		var line, dots strings.Builder
		for j, s := range v.Steps {
			x := 100 * (float64(j) + 0.5) / float64(len(v.Steps))
			y := 100 * (high - s.Whole) / max(high-low, 1e-9)
			step := "L"
			if j == 0 {
				step = "M"
			}
			fmt.Fprintf(&line, "%s%.2f %.2f", step, x, y)
			fmt.Fprintf(&dots, "M%.2f %.2fh0", x, y) // a line without length has round ends all the same
		}
		class := fmt.Sprintf("c%d", i%colors)
		p.Keys = append(p.Keys, key{class, v.Kernels})
		p.Lines = append(p.Lines, curve{class, line.String(), dots.String()})
	}
	return p
}
