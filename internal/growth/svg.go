package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Sizes of a chart, in pixels of its own: two panels side by side above a caption.
const (
	panelWidth  = 420
	height      = 360
	left, right = 56, 78 // of a panel, for the scale and for the names of the series
	top, bottom = 78, 256
	lineHeight  = 15
)

// style follows the reader's colour scheme. Numbers have a rim in the colour of the
// background, so that lines do not strike them through.
const style = `svg{color:#1f2328;background:#fff;font:11px system-ui,sans-serif}
.paper{fill:#fff}.m{fill:#0757b5}.p{fill:#a33c00}.line{stroke:#a33c00;fill:none;stroke-width:1.5}
text{fill:currentColor}text.m{fill:#0757b5}text.p{fill:#a33c00}
.value{stroke:#fff;stroke-width:3;paint-order:stroke}.grid{stroke:currentColor;opacity:.15}.soft{opacity:.75}
.title{font-size:14px;font-weight:600}.name{font-size:12px;font-weight:600}.end{text-anchor:end}.mid{text-anchor:middle}
@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}.paper{fill:#0d1117}
.m,text.m{fill:#79b8ff}.p,text.p{fill:#ffa657}.line{stroke:#ffa657}.value{stroke:#0d1117}}`

// svg returns the chart of the sweep, which needs nothing else.
func (r report) svg() string {
	b := &canvas{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img">`+"\n", 2*panelWidth, height)
	fmt.Fprintf(b, "<title>%s</title>\n<style>%s</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n", escape(r.title), style)
	b.text(16, 24, "title", r.title)
	b.panel(0, r.time, r.axis)
	b.panel(panelWidth, r.memory, r.axis)
	for i, line := range r.caption() {
		b.text(16, bottom+62+lineHeight*float64(i), "soft", line)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// canvas collects the elements of a chart.
type canvas struct{ strings.Builder }

// panel draws one curve from x on: both axes are logarithmic, so that a power is a line.
func (b *canvas) panel(x float64, c curve, axis string) {
	across := newScale(c.sizes, 1.05, 2, x+left+30, x+panelWidth-right-8)
	up := newScale(slices.Concat(c.measured, c.predicted), 1.25, 5, bottom, top)
	b.text(x+16, 46, "name", fmt.Sprintf("%s, %s", c.title, c.unit))
	b.text(x+16, 46+lineHeight, "soft", c.growth())
	for _, v := range up.ticks() {
		fmt.Fprintf(b, `<path class="grid" d="M%g %.1fH%g"/>`+"\n", x+left, up.at(v), x+panelWidth-right)
		b.text(x+left-6, up.at(v)+4, "end soft", fmt.Sprintf("%g", v))
	}
	for _, n := range c.sizes {
		b.text(across.at(n), bottom+lineHeight, "mid soft", fmt.Sprintf("%g", n))
	}
	b.text(x+(left+panelWidth-right)/2, bottom+2*lineHeight, "mid soft", axis)
	b.series(across, up, c)
}

// series draws the predicted line, the measured points with their values, and the name of
// each where it ends.
func (b *canvas) series(across, up scale, c curve) {
	var line []string
	for i, n := range c.sizes {
		line = append(line, fmt.Sprintf("%.1f %.1f", across.at(n), up.at(c.predicted[i])))
	}
	fmt.Fprintf(b, `<path class="line" d="M%s"/>`+"\n", strings.Join(line, "L"))
	for i, n := range c.sizes {
		x, y := across.at(n), up.at(c.measured[i])
		fmt.Fprintf(b, `<circle class="m" cx="%.1f" cy="%.1f" r="4"><title>%g: %.1f %s measured, %.1f predicted</title></circle>`+"\n",
			x, y, n, c.measured[i], c.unit, c.predicted[i])
		b.text(x-5, y-7, "value end", fmt.Sprintf("%.1f", c.measured[i]))
	}
	last := len(c.sizes) - 1
	m, p := apart(up.at(c.measured[last]), up.at(c.predicted[last]))
	b.text(across.high+12, m+4, "m", "measured")
	b.text(across.high+12, p+4, "p", "predicted")
}

func (b *canvas) text(x, y float64, class, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" class="%s">%s</text>`+"\n", x, y, class, escape(text))
}

// apart moves the heights of two lines of text so that they do not overlap.
func apart(m, p float64) (movedM, movedP float64) {
	if math.Abs(m-p) >= lineHeight {
		return m, p
	}
	middle, half := (m+p)/2, lineHeight/2.0
	if m > p {
		half = -half
	}
	return middle - half, middle + half
}

// scale maps values to pixels by their logarithm.
type scale struct {
	least, most float64 // values
	low, high   float64 // pixels
}

// newScale covers the values with a margin, a factor, and spans at least the factor span.
func newScale(values []float64, margin, span, low, high float64) scale {
	s := scale{slices.Min(values) / margin, slices.Max(values) * margin, low, high}
	if s.most < span*s.least {
		middle := math.Sqrt(s.least * s.most)
		s.least, s.most = middle/math.Sqrt(span), middle*math.Sqrt(span)
	}
	return s
}

func (s scale) at(v float64) float64 {
	return s.low + (s.high-s.low)*math.Log(v/s.least)/math.Log(s.most/s.least)
}

// ticks returns 1, 2 and 5 times the powers of ten within the scale.
func (s scale) ticks() []float64 {
	var out []float64
	for power := math.Pow(10, math.Floor(math.Log10(s.least))); power <= s.most; power *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * power; v >= s.least && v <= s.most {
				out = append(out, v)
			}
		}
	}
	return out
}

// escape makes text safe between tags.
func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}
