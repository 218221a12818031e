package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/browser"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/report"
)

// other is a run of 60 steps of another size, with another rate and no evaluation but the first.
func other(t *testing.T) *journal.Run {
	t.Helper()
	r, s := &journal.Run{}, start()
	s.Config = json.RawMessage(`{"model":"models/small","lr":0.001,"data":{"paths":["a.txt","b.txt"],"format":"auto"},` +
		`"strict":false,"out":"elsewhere"}`)
	s.Sites = nil
	record(t, r, s, &journal.Eval{Time: noon, Loss: 0.5})
	for i := 1; i <= 60; i++ {
		record(t, r, &journal.Step{Time: noon, Step: i, Loss: 3, LR: 1e-3, GradNorm: 1, Tokens: 512, Seconds: 1})
	}
	record(t, r, &journal.End{Time: noon, Step: 60, Interrupted: true})
	return r
}

func compared(t *testing.T, runs ...report.Named) string {
	t.Helper()
	text, err := report.Compare(runs)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAComparisonHasWhatRunsCameTo(t *testing.T) {
	text := compared(t, report.Named{Name: "first", Run: sample(t)}, report.Named{Name: "second", Run: other(t)})
	text = strings.ReplaceAll(text, "<wbr/>", "")
	for _, want := range []string{
		"<title>tune: 2 runs</title>",
		`first</td><td class="n">200</td><td class="n">0.0448</td><td class="n">1.1250</td>` +
			`<td class="n k">1.0625<span class="soft"> at 100</span></td><td class="n">2.05k</td><td class="n">64 MiB</td>` +
			`<td class="n">1 min 40 s</td><td class="state">ended</td>`,
		// The evaluation before the first step is no result of the run.
		`second</td><td class="n">60</td><td class="n">3.0000</td><td class="n">0.5000</td><td class="n"></td>` +
			`<td class="n">512</td><td class="n"></td><td class="n">1 min 0 s</td><td class="state">interrupted</td>`,
		`<td class="setting">lr</td><td class="value">0.0003</td><td class="value">0.001</td>`,
		`<td class="setting">kernels in use</td><td class="value">["npu_fused_swiglu"]</td><td class="value">[]</td>`,
		`<li class="c1"><i></i><span>second</span></li>`, "Training loss by tokens",
	} {
		text := strings.ReplaceAll(text, "&#34;", `"`)
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, same := range []string{"strict", "data.format", "processor", "out"} {
		if strings.Contains(text, `<td class="setting">`+same+"<") {
			t.Errorf("%s does not tell the runs apart", same)
		}
	}
	if n := strings.Count(text, `<td class="setting">`); n != 2 {
		t.Errorf("%d settings differ, want 2", n)
	}
}

func TestRunsOfOneSizeNeedNoChartByTokens(t *testing.T) {
	runs := []report.Named{{Name: "a", Run: sample(t)}, {Name: "b", Run: sample(t)}}
	if text := compared(t, runs...); strings.Contains(text, "by tokens") || !strings.Contains(text, "<p>None.</p>") {
		t.Error("equal runs differ")
	}
	for n, runs := range map[string][]report.Named{"1 runs": runs[:1], "9 runs": append(make([]report.Named, 7), runs...),
		"b has not begun": {runs[0], {Name: "b", Run: &journal.Run{}}}} {
		if _, err := report.Compare(runs); err == nil || !strings.Contains(err.Error(), n) {
			t.Errorf("error %v, want %q", err, n)
		}
	}
}

// TestAComparisonOfAnyRuns is well formed, whatever their names and settings hold.
func TestAComparisonOfAnyRuns(t *testing.T) {
	const evil = `<script src="x"></script>"'&{{.}}` + "\x00\u2028"
	hostile, s := &journal.Run{}, start()
	s.Config = json.RawMessage(`{"<b>":{"</td>":1}}`)
	record(t, hostile, s, &journal.Step{Step: 1, Loss: 1}, &journal.End{Error: evil})
	begun := &journal.Run{}
	record(t, begun, start())
	for name, runs := range map[string][]report.Named{
		"hostile": {{Name: evil, Run: hostile}, {Name: "b", Run: sample(t)}},
		"empty":   {{Name: "a", Run: begun}, {Name: "b", Run: begun}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(compared(t, runs...), `<link rel="icon" href="data:,">`, "", 1)
			if open := balance(t, text); open != 0 {
				t.Errorf("%d elements are open at the end", open)
			}
			text = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>`).ReplaceAllString(text, "")
			for _, bad := range []string{"<script", "<link", "<img", "url(", "href=", " style=", "NaN", "Inf", "%!",
				"ZgotmplZ"} {
				if strings.Contains(text, bad) {
					t.Errorf("the page has %q", bad)
				}
			}
		})
	}
}

// TestALegendShowsAndHides in a browser: in all charts, and under the pointer.
func TestALegendShowsAndHides(t *testing.T) {
	text := compared(t, report.Named{Name: "first", Run: sample(t)}, report.Named{Name: "second", Run: other(t)})
	dir := t.TempDir()
	open := func(text string) browser.Page {
		file := filepath.Join(dir, "page.html")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return browser.Open(t, "file://"+file, time.Second, "--window-size=390,844")
	}
	if p := open(text); p.Console != nil || strings.Count(p.DOM, `<button type="button" aria-pressed="true">`) != 2 {
		t.Errorf("the page as it is complains or has no buttons: %q", p.Console)
	}
	// What a user does, by a script of the test's own, which the page's policy does not let in.
	const user = `
const out = document.createElement("pre"), buttons = document.querySelectorAll(".toggles button"),
  area = document.querySelector(".area"), tip = document.querySelector(".tip");
document.body.append(out);
const drawn = () => [...document.querySelectorAll(".area g")]
  .filter((g) => getComputedStyle(g).display !== "none").length;
const say = (at) => { const box = area.getBoundingClientRect();
  const where = {bubbles: true, clientX: box.left + box.width * at, clientY: box.top};
  area.dispatchEvent(new PointerEvent("pointermove", where));
  out.textContent += drawn() + " " + (tip.hidden ? "-" : tip.textContent.replaceAll("\n", ", ")) + "; "; };
say(1); buttons[0].click(); say(1); buttons[1].click(); say(1); buttons[0].click(); say(0);`
	text = regexp.MustCompile(`<meta http-equiv[^>]*>`).ReplaceAllString(text, "")
	p := open(strings.Replace(text, "</script>\n</body>", user+"</script>\n</body>", 1))
	// Two curves of each run in the two charts that are smoothed, and one in each of the five others; of the second,
	// whose memory is not known, in four. What is smoothed ends with the mean of 9/191 to 9/201, and begins with that of
	// 9/2 to 9/12.
	const want = "17 step 200, first 0.0459, second 3.0000 (step 60); 8 step 60, second 3.0000; 0 -; " +
		"9 step 1, first 1.7208; <"
	if !strings.Contains(p.DOM, "<pre>"+want) || p.Console != nil {
		t.Errorf("want %s in\n%s\n%q", want, p.DOM[max(0, strings.Index(p.DOM, "<pre>")):], p.Console)
	}
}
