package chart_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/browser"
	"github.com/seed98097648/tune/internal/chart"
)

func line(n int, y func(i int) float64) chart.Series {
	s := chart.Series{Name: "a", Class: "c0"}
	for i := range n {
		s.X, s.Y = append(s.X, float64(i+1)), append(s.Y, y(i))
	}
	return s
}

// TestTicksAreRoundAndHoldTheCurve, whatever the numbers are.
func TestTicksAreRoundAndHoldTheCurve(t *testing.T) {
	for _, tt := range []struct {
		low, high float64
		zero      bool
		want      string
	}{
		{1.5, 3.9, false, "1 2 3 4"},
		{1.5, 3.9, true, "0 1 2 3 4"},
		{0, 1e-4, true, "0 5e-5 0.0001"},
		{0.00021, 0.00079, false, "0.0002 0.0004 0.0006 0.0008"},
		{100, 100, false, "90 95 100 105 110"},
		{0, 0, true, ""},
		{-3, 5, false, "-4 -2 0 2 4 6"},
		{1e20, 9e20, false, "0 2e20 4e20 6e20 8e20 1e21"},
		{12300, 45600, true, "0 20000 40000 60000"},
		{1.5109, 1.5111, false, "1.51 1.511 1.512"},
		{1.50012, 1.50187, false, "1.5 1.501 1.502"},
		{-1.50187, -1.50012, false, "-1.502 -1.501 -1.5"},
		{1999.2, 2000.4, false, "1999 2000 2001"},
	} {
		t.Run(fmt.Sprintf("%g to %g", tt.low, tt.high), func(t *testing.T) {
			p := chart.NewPlot(chart.Axes{Zero: tt.zero}, line(2, func(i int) float64 { return []float64{tt.low, tt.high}[i] }))
			var texts []string
			for _, tick := range p.Y {
				texts = append(texts, tick.Text)
				if tick.At < -1e-9 || tick.At > 100+1e-9 {
					t.Errorf("the tick %s is at %g%%", tick.Text, tick.At)
				}
			}
			if got := strings.Join(texts, " "); tt.want != "" && got != tt.want {
				t.Errorf("ticks %s, want %s", got, tt.want)
			}
			within(t, p)
		})
	}
}

// within fails unless every point of every curve lies on the plot.
func within(t *testing.T, p chart.Plot) {
	t.Helper()
	for _, c := range p.Curves {
		for _, point := range strings.Split(strings.TrimPrefix(c.Line, "M"), "L") {
			for _, v := range strings.Fields(point) {
				if at, err := strconv.ParseFloat(v, 64); err != nil || at < -0.01 || at > 100.01 {
					t.Fatalf("a point is at %s", point)
				}
			}
		}
	}
}

func TestALongCurveKeepsItsPeaks(t *testing.T) {
	const n, peak = 100_000, 54_321
	p := chart.NewPlot(chart.Axes{}, line(n, func(i int) float64 {
		if i == peak {
			return 1000
		}
		return math.Sin(float64(i))
	}))
	c := p.Curves[0]
	xs, ys := strings.Split(c.Xs, " "), strings.Split(c.Ys, " ")
	if len(xs) != len(ys) || len(xs) != strings.Count(c.Line, " ") || len(xs) > 500 {
		t.Fatalf("%d and %d texts for %d points", len(xs), len(ys), strings.Count(c.Line, " "))
	}
	if xs[0] != "1" || xs[len(xs)-1] != strconv.Itoa(n) {
		t.Errorf("the curve goes from %s to %s", xs[0], xs[len(xs)-1])
	}
	if !strings.Contains(c.Xs, " "+strconv.Itoa(peak+1)+" ") || !strings.Contains(c.Ys, " 1000 ") {
		t.Error("the peak is missing")
	}
	last := 0
	for _, x := range xs {
		if i, err := strconv.Atoi(x); err != nil || i <= last {
			t.Fatalf("point %s after %d", x, last)
		} else {
			last = i
		}
	}
	within(t, p)
}

func TestAPlotOfLittle(t *testing.T) {
	if p := chart.NewPlot(chart.Axes{}, chart.Series{Name: "none"}); len(p.Curves) != 0 || len(p.Y) != 0 {
		t.Errorf("a plot of nothing has %+v", p)
	}
	p := chart.NewPlot(chart.Axes{}, line(1, func(int) float64 { return 5 }), chart.Series{Name: "none"})
	if len(p.Curves) != 1 || p.Curves[0].Line != "M50.00 50.00" || p.Keys != nil {
		t.Errorf("a plot of one point is %+v", p)
	}
	var bars []string
	for _, part := range chart.NewBar("a", "1", []chart.Key{{Name: "x"}, {Name: "y"}, {Name: "z"}}, []float64{1, 0, 3}, 4,
		chart.Number).Parts {
		bars = append(bars, fmt.Sprintf("%g %g %s", part.X, part.Width, part.Text))
	}
	if got := strings.Join(bars, "; "); got != "0 25 x: 1; 25 75 z: 3" {
		t.Errorf("parts of a bar: %s", got)
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 12340: "12340", 2e-5: "2e-5", 1.23456: "1.235",
		-0.5: "-0.5", 1e12: "1e12", 999.96: "1000"} {
		if got := chart.Number(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
}

// TestThePointerAndTheKeysShowFigures, in a browser whose page allows its own script alone.
func TestThePointerAndTheKeysShowFigures(t *testing.T) {
	const body = `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{.Policy}}">
<title>x</title><style>{{.Style}}</style></head><body>{{template "plot" .Plot}}<pre></pre>
<script>{{.Script}}</script></body></html>`
	// What a user does, by a script of the test's own behind that of the page.
	const user = `
const area = document.querySelector(".area"), box = area.getBoundingClientRect(),
  tip = document.querySelector(".tip"), out = document.querySelector("pre");
const say = () => { out.textContent += tip.textContent.replaceAll("\n", ", ") + "; "; };
area.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: box.left + box.width / 2,
  clientY: box.top + 5})); say();
area.focus();
for (const key of ["ArrowRight", "ArrowRight", "ArrowLeft"]) {
  area.dispatchEvent(new KeyboardEvent("keydown", {bubbles: true, key})); say(); }
document.body.dispatchEvent(new PointerEvent("pointermove", {bubbles: true}));
out.textContent += tip.hidden + " " + document.querySelectorAll(".guide").length;`
	tmpl, err := chart.New("test", body, nil)
	if err != nil {
		t.Fatal(err)
	}
	style, script := chart.Style("pre { color: red }"), chart.Script+user
	other := line(3, func(i int) float64 { return 7 })
	other.Name, other.X = "<b>", []float64{1, 3, 4}
	var page bytes.Buffer
	if err := tmpl.Execute(&page, map[string]any{"Policy": chart.Policy(style, script, ""), "Style": style,
		"Script": template.JS(script),
		"Plot": chart.NewPlot(chart.Axes{X: "step", Label: `"loss"`}, line(5, func(i int) float64 { return float64(i) / 4 }),
			other)}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, page.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := browser.Open(t, "file://"+file, time.Second)
	const want = "step 3, a 0.5, &lt;b&gt; 7; step 4, a 0.75, &lt;b&gt; 7; step 5, a 1, &lt;b&gt; 7 (step 4); step 4, " +
		"a 0.75, &lt;b&gt; 7; true 0"
	if !strings.Contains(p.DOM, "<pre>"+want+"</pre>") {
		t.Errorf("want %s in\n%s", want, p.DOM[strings.Index(p.DOM, "<pre>"):])
	}
	if p.Console != nil {
		t.Errorf("the console has %q", p.Console)
	}
}

// TestAPictureIsAFileOfItsOwn: a browser finds nothing amiss, and has every curve, key and tick.
func TestAPictureIsAFileOfItsOwn(t *testing.T) {
	p := chart.NewPlot(chart.Axes{Label: `losses of "a" & b`, X: "step"},
		chart.Series{Name: "a <1>", Class: chart.Class(0), X: []float64{0, 50, 100}, Y: []float64{3, 2, 1.5}, Dots: true},
		chart.Series{Name: "b", Class: chart.Class(8) + " dashed", X: []float64{0, 100}, Y: []float64{3, 2.5}})
	text, err := chart.Picture(p)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	for err == nil {
		_, err = d.Token()
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "picture.svg")
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	page := browser.Open(t, "file://"+path, time.Second)
	if len(page.Console) > 0 {
		t.Errorf("console: %q", page.Console)
	}
	for _, want := range []string{`aria-label="losses of &quot;a&quot; &amp; b"`, ">a &lt;1&gt;</text>", ">b</text>",
		`class="c0 dashed key"`, `d="M0.00 0.00L50.00 66.67L100.00 100.00"`, ">1.5</text>", ">step</text>"} {
		if !strings.Contains(page.DOM, want) {
			t.Errorf("the picture has no %s:\n%s", want, page.DOM)
		}
	}
}
