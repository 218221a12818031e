package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/chart"
)

func TestPageHasTheNumbersOfTheRun(t *testing.T) {
	text := html(t, sample())
	for _, want := range []string{
		"auto is 2.00 times as fast as none", "95% interval 1.950 to 2.100", "A step takes 1000 ms instead of 2000.",
		"SLOWER than none: a step takes 2.00 times as long", `class="headline bad"`,
		"all: no clear difference from none",
		"5 GiB", "6 GiB", "20.0 GB/s (one thread 10.0)", "250 GFLOP/s (one thread 125 GFLOP/s)",
		"rms_norm (npu_fused_rmsnorm): 7.00 ms", "backward: 1200 ms", "200 GFLOP/s",
		"900 ms: 200 GFLOP of products at 250 GFLOP/s, then 2.00 GB of the optimizer at 20.0 GB/s",
		"A step takes 2.22 times its floor.",
		"matrix products of the floor: 800 ms",
		"Boundary to the plugins: 0.500 ms a step, 0.05% of it.", "stood in for a kernel in 3 calls",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestPageIsWellFormedAndLoadsNothing(t *testing.T) {
	one := sample()
	one.Runs = one.Runs[:1]
	short := sample()
	for i := range short.Runs {
		short.Runs[i].Steps, short.Runs[i].SpeedupInterval = short.Runs[i].Steps[:1], nil
	}
	hostile := sample()
	hostile.Config.Model = `<script src="https://example.org/x.js">"'&`
	hostile.Runs[0].Kernels, hostile.Runs[0].PlainCalls[0].Op = "<script>", "</td><script>"
	for name, r := range map[string]*Result{"four variants": sample(), "one": one, "one round": short,
		"a folder like a tag": hostile} {
		t.Run(name, func(t *testing.T) {
			text := html(t, r)
			if open := balance(t, text); open != 0 {
				t.Errorf("%d elements are open at the end", open)
			}
			for _, bad := range []string{"<script", "<link", "<img", "@import", "url(", "src=", "href=", "NaN", "Inf",
				"ZgotmplZ", "%!"} {
				if strings.Contains(text, bad) && !(bad == "src=" && name == "a folder like a tag") {
					t.Errorf("the page has %q", bad)
				}
			}
		})
	}
}

// TestBarsStayInTheirCharts: every part of a bar begins where the last one ended.
func TestBarsStayInTheirCharts(t *testing.T) {
	r := sample()
	for name, c := range map[string]chart.Bars{"steps": r.stepChart(), "kernels": r.kernelChart(),
		"memory": r.memoryChart()} {
		widest := 0.0
		for _, b := range c.Bars {
			x := 0.0
			for _, p := range b.Parts {
				if p.X < x-1e-9 || p.Width <= 0 {
					t.Errorf("%s of %s: %+v begins before %g", name, b.Label, p, x)
				}
				x = p.X + p.Width
			}
			widest = max(widest, x)
		}
		if widest < 99 || widest > 100.0001 {
			t.Errorf("the longest bar of %s ends at %g%%", name, widest)
		}
	}
}

func html(t *testing.T, r *Result) string {
	t.Helper()
	text, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// balance reads the page as XML, for which elements that HTML never closes are taken out.
func balance(t *testing.T, text string) int {
	t.Helper()
	text = regexp.MustCompile(`(?i)<!doctype html>|<meta [^>]*>`).ReplaceAllString(text, "")
	d := xml.NewDecoder(strings.NewReader(text))
	d.Entity = xml.HTMLEntity
	open := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return open
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token.(type) {
		case xml.StartElement:
			open++
		case xml.EndElement:
			open--
		}
	}
}
