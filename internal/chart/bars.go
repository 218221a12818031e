package chart

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
