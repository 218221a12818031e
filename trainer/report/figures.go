package report

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/chart"
	"github.com/seed98097648/tune/trainer/journal"
)

// tiles sum the run up.
func tiles(r *journal.Run) []tile {
	var all []tile
	add := func(name, value, detail string) { all = append(all, tile{name, value, detail}) }
	if n := len(r.Steps); n > 0 {
		add("Training loss", loss(r.Loss()), fmt.Sprintf("the mean; %s at first, %s at last", loss(r.Steps[0].Loss),
			loss(r.Steps[n-1].Loss)))
	}
	if n := len(r.Evals); n > 0 {
		detail := fmt.Sprintf("perplexity %.4g", math.Exp(r.Evals[n-1].Loss))
		if e, ok := r.Best(); ok {
			detail += fmt.Sprintf("; best %s after step %d", loss(e.Loss), e.Step)
		}
		add("Held-out loss", loss(r.Evals[n-1].Loss), detail)
	}
	sum := total(r)
	if sum.seconds > 0 {
		add("Speed", amount.Count(float64(sum.tokens)/sum.seconds)+" tokens/s",
			fmt.Sprintf("%s tokens in %s of steps", amount.Count(float64(sum.tokens)), duration(sum.seconds)))
	}
	if sum.memory > 0 {
		add("Memory", amount.Bytes(float64(sum.memory)), "at its highest, without plugins")
	}
	if t, several := ranksTile(r); several {
		all = append(all, t)
	}
	fused, plain := 0, 0
	for _, s := range r.Start.Sites {
		switch {
		case s.Kernel != "":
			fused++
		case s.CoveredBy == "":
			plain++
		}
	}
	add("Fused kernels", fmt.Sprintf("%d of %d sites", fused, fused+plain), "")
	return all
}

// totals are of all steps of a run.
type totals struct {
	tokens  int
	seconds float64
	memory  int64 // at its highest
}

func total(r *journal.Run) totals {
	var t totals
	for _, s := range r.Steps {
		t = totals{t.tokens + s.Tokens, t.seconds + s.Seconds, max(t.memory, s.Memory)}
	}
	return t
}

// lossPlot shows the loss of each step, smoothed where there are many, and evaluations.
func lossPlot(r *journal.Run) chart.Plot {
	train := series(r, "training", "c0", func(s journal.Step) float64 { return s.Loss })
	held := chart.Series{Name: "held out", Class: "c1", Dots: true}
	for _, e := range r.Evals {
		held.X, held.Y = append(held.X, float64(e.Step)), append(held.Y, e.Loss)
	}
	all := smoothed(train)
	if len(all) > 1 {
		all[1].Name += ", smoothed"
	}
	all = append(all, held)
	label := "Loss by step"
	if n := len(r.Steps); n > 0 {
		label = fmt.Sprintf("Loss by step: training from %s at step %d to %s at step %d", loss(r.Steps[0].Loss),
			r.Steps[0].Step, loss(r.Steps[n-1].Loss), r.Steps[n-1].Step)
	}
	return chart.NewPlot(chart.Axes{Label: label, X: "step", Y: loss, Tick: chart.Number}, all...)
}

// smoothed returns a series alone, or one with many points behind its smoothed form.
func smoothed(s chart.Series) []chart.Series {
	const enough = 40
	n := len(s.Y)
	if n < enough {
		return []chart.Series{s}
	}
	even := s
	even.Y, s.Faint = smooth(s.Y, n/20), true
	return []chart.Series{s, even}
}

// smooth returns the means over so many values on either side, as far as there are any: the
// last mean is not the last value.
func smooth(y []float64, width int) []float64 {
	sums := make([]float64, len(y)+1)
	for i, v := range y {
		sums[i+1] = sums[i] + v
	}
	out := make([]float64, len(y))
	for i := range y {
		from, to := max(i-width, 0), min(i+width+1, len(y))
		out[i] = (sums[to] - sums[from]) / float64(to-from)
	}
	return out
}

func series(r *journal.Run, name, class string, value func(journal.Step) float64) chart.Series {
	s := chart.Series{Name: name, Class: class}
	for _, step := range r.Steps {
		s.X, s.Y = append(s.X, float64(step.Step)), append(s.Y, value(step))
	}
	s.Dots = len(s.X) == 1
	return s
}

// otherPlots are the smaller charts.
func otherPlots(r *journal.Run) []plot {
	if len(r.Steps) == 0 {
		return nil
	}
	last, highest := r.Steps[len(r.Steps)-1], int64(0)
	for _, s := range r.Steps {
		highest = max(highest, s.Memory)
	}
	var all []plot
	add := func(title, detail, name, class string, a chart.Axes, value func(journal.Step) float64) {
		a.Label, a.X = fmt.Sprintf("%s by step, %s at step %d", title, a.Y(value(last)), last.Step), "step"
		all = append(all, plot{title, detail, chart.NewPlot(a, series(r, name, class, value))})
	}
	add("Learning rate", "", "learning rate", "c2", chart.Axes{Y: chart.Number, Zero: true},
		func(s journal.Step) float64 { return s.LR })
	add("Gradient norm", "before clipping", "gradient norm", "c3", chart.Axes{Y: chart.Number, Zero: true},
		func(s journal.Step) float64 { return s.GradNorm })
	add("Speed", "tokens per second, padding included", "tokens/s", "c4",
		chart.Axes{Y: amount.Count[float64], Zero: true}, journal.Step.Rate)
	if highest > 0 {
		scale, unit := amount.ByteUnit(float64(highest))
		y := func(v float64) string { return chart.Number(v) + " " + unit }
		add("Memory", "of tune itself, with tensors that plugins share", "memory", "c5", chart.Axes{Y: y, Zero: true},
			func(s journal.Step) float64 { return float64(s.Memory) / scale })
	}
	return all
}

// figure is a row of the table of figures.
type figure struct {
	Step                                    int
	Loss, Eval, LR, GradNorm, Speed, Memory string
}

// figures picks a few steps: the first, the last, those of evaluations, and some between.
func figures(r *journal.Run) []figure {
	const some = 24
	evals := map[int]float64{}
	for _, e := range r.Evals {
		evals[e.Step] = e.Loss
	}
	var all []figure
	if e, ok := evals[0]; ok {
		all = append(all, figure{Step: 0, Eval: loss(e)})
	}
	every := max((len(r.Steps)+some-1)/some, 1)
	for i, s := range r.Steps {
		e, evaluated := evals[s.Step]
		if i%every != 0 && i != len(r.Steps)-1 && !(evaluated && len(evals) <= some) {
			continue
		}
		f := figure{Step: s.Step, Loss: loss(s.Loss), LR: chart.Number(s.LR), GradNorm: chart.Number(s.GradNorm),
			Speed: amount.Count(s.Rate())}
		if evaluated {
			f.Eval = loss(e)
		}
		if s.Memory > 0 {
			f.Memory = amount.Bytes(float64(s.Memory))
		}
		all = append(all, f)
	}
	return all
}

// loss writes a loss as the run itself does.
func loss(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// duration writes seconds in the two largest units that matter.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds >= 0.9995: // which is 1e+03 ms in three digits
		return fmt.Sprintf("%.1f s", seconds)
	}
	return fmt.Sprintf("%.3g ms", 1000*seconds)
}
