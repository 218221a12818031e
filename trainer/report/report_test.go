package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
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

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func start() *journal.Start {
	return &journal.Start{Time: noon, Version: journal.Version, Model: "llama", Parameters: 1_234_567, Rows: 300,
		EvalRows: 30, Steps: 200,
		Config: json.RawMessage(`{"model":"models/small","lr":0.0003,"data":{"paths":["a.txt","b.txt"],"format":"auto"},` +
			`"strict":false}`),
		Environment: journal.Environment{Program: "v1.2.3", Go: "go1.26", OS: "linux", Arch: "amd64", CPU: "Fast CPU",
			Cores: 8, Threads: 4, SIMD: "avx2"},
		Memory: journal.Memory{Parameters: 5 << 20, Optimizer: 10 << 20, Activations: 3 << 30},
		Sites: []journal.Site{{Path: "layers.0.mlp", Op: "swiglu", Kernel: "npu_fused_swiglu",
			Measured: "1 ms against 2 ms plain"},
			{Path: "layers.1.mlp", Op: "swiglu", Kernel: "npu_fused_swiglu", Measured: "1 ms against 2 ms plain"},
			{Path: "norm", Op: "rms_norm", Reason: "it is slower: 4 ms against 3 ms plain",
				Measured: "4 ms against 3 ms plain"}, {Path: "layers.0.norm", Op: "rms_norm", CoveredBy: "layers.0.add"}},
		Plugins: []journal.Plugin{{Name: "npu_fused_swiglu", Version: "0.1", Path: "/plugins/npu_fused_swiglu",
			Checksum: "abc123"}}}
}

// record puts a run together.
func record(t *testing.T, sink journal.Sink, events ...journal.Event) {
	t.Helper()
	for _, e := range events {
		if err := sink.Record(e); err != nil {
			t.Fatal(err)
		}
	}
}

// sample is a run of 200 steps with everything that a report can show.
func sample(t *testing.T) *journal.Run {
	t.Helper()
	r := &journal.Run{}
	record(t, r, start(), &journal.Eval{Time: noon, Loss: 9.5})
	for i := 1; i <= 200; i++ {
		record(t, r, &journal.Step{Time: noon, Step: i, Loss: 9 / float64(i+1), LR: 1e-4, GradNorm: 2, Tokens: 1024,
			Seconds: 0.5, Memory: 64 << 20})
		if i == 100 {
			record(t, r, &journal.Eval{Time: noon, Step: i, Loss: 1.0625},
				&journal.Checkpoint{Time: noon, Step: i, Path: "out/checkpoint-100"},
				&journal.Incident{Time: noon, Step: i, Kernel: "npu_fused_swiglu", Op: "swiglu", Deaths: 1, Repeats: 1,
					Error: "signal: killed"},
				&journal.Incident{Time: noon, Step: i, Kernel: "npu_fused_swiglu", Op: "swiglu", Deaths: 2, Fallbacks: 40,
					Error: "given up"},
				&journal.Warning{Time: noon, Step: i, Text: "the disk is nearly full"})
		}
	}
	record(t, r, &journal.Eval{Time: noon, Step: 200, Loss: 1.125},
		&journal.Kernels{Time: noon, Step: 200, Calls: []journal.Call{{Op: "swiglu", Kernel: "npu_fused_swiglu",
			Pass: "backward", Calls: 400, Seconds: 3},
			{Op: "linear", Pass: "forward", Calls: 800, Seconds: 1}}},
		&journal.End{Time: noon, Step: 200})
	return r
}

func page(t *testing.T, r *journal.Run) string {
	t.Helper()
	text, err := report.HTML(r, "/somewhere/my-run")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePageHasTheNumbersOfTheRun(t *testing.T) {
	text := strings.ReplaceAll(page(t, sample(t)), "<wbr/>", "")
	for _, want := range []string{
		"<title>tune: my-run</title>", "Ended after step 200 of 200",
		"<b>0.2197</b>", "the mean; 4.5000 at first, 0.0448 at last", // training loss
		"<b>1.1250</b>", "best 1.0625 after step 100", // held out
		"<b>2.05k tokens/s</b>", "205k tokens in 1 min 40 s", "<b>64 MiB</b>", "<b>2 of 3 sites</b>",
		"swiglu (npu_fused_swiglu): 3.0 s", "7.5 ms", "75.0%",
		"layers.*.mlp", "it is slower: 4 ms against 3 ms plain</td>", "1 ms against 2 ms plain",
		"its work is done at layers.*.add",
		"3 restarts, 1 repeated call, 40 fall-backs in all.", "signal: killed", "given up", "the disk is nearly full",
		"newest of 1 checkpoints: out/checkpoint-100",
		"<dt>data.paths</dt><dd>[&#34;a.txt&#34;,&#34;b.txt&#34;]</dd>", "<dt>lr</dt><dd>0.0003</dd>",
		"<dt>strict</dt><dd>false</dd>",
		"Fast CPU, 8 cores", "1.23M parameters", "3 GiB activations", "SHA-256 abc123",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestAPageOfAnyRun is well formed, and loads nothing, whatever the run has in it.
func TestAPageOfAnyRun(t *testing.T) {
	const evil = `<script src="https://example.org/x.js"></script><img onerror=x>"'&{{.}}` + "\x00\u2028"
	hostile, s := &journal.Run{}, start()
	s.Model, s.Config = evil, json.RawMessage(fmt.Sprintf(`{"model":%q,%q:{"</dd>":1}}`, "<img>", "<b>"))
	s.Sites[0] = journal.Site{Path: evil, Op: evil, Kernel: evil, Reason: evil, Measured: evil}
	s.Plugins[0] = journal.Plugin{Name: evil, Path: evil, Checksum: evil}
	s.Environment.CPU = evil
	record(t, hostile, s, &journal.Step{Step: 1, Loss: 1}, &journal.Incident{Step: 1, Deaths: 1, Kernel: evil, Op: evil,
		Error: evil}, &journal.Warning{Text: evil},
		&journal.Checkpoint{Step: 1, Path: evil}, &journal.Kernels{Calls: []journal.Call{{Op: evil, Kernel: evil,
			Pass: evil, Calls: 1, Seconds: 1}}},
		&journal.End{Step: 1, Error: evil})
	begun, one, interrupted := &journal.Run{}, &journal.Run{}, &journal.Run{}
	record(t, begun, start())
	record(t, one, start(), &journal.Step{Time: noon, Step: 1, Loss: 3})
	record(t, interrupted, start(), &journal.Eval{Loss: 1}, &journal.End{Interrupted: true})
	for name, r := range map[string]*journal.Run{"whole": sample(t), "hostile": hostile, "begun": begun, "one step": one,
		"interrupted": interrupted, "nothing": {}} {
		t.Run(name, func(t *testing.T) {
			// An icon without content keeps a browser from asking for one.
			text := strings.Replace(page(t, r), `<link rel="icon" href="data:,">`, "", 1)
			if open := balance(t, text); open != 0 {
				t.Errorf("%d elements are open at the end", open)
			}
			text = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>`).ReplaceAllString(text, "")
			for _, bad := range []string{"<script", "<link", "<img", "<b>&lt;", "@import", "url(", "href=", " src=\"",
				" style=", "onerror=x>\"", "NaN", "Inf", "ZgotmplZ", "%!", "{{"} {
				if strings.Contains(text, bad) && !(bad == "{{" && name == "hostile") {
					t.Errorf("the page has %q", bad)
				}
			}
		})
	}
}

// balance reads the page as XML, for which elements that HTML never closes are taken out.
func balance(t *testing.T, text string) int {
	t.Helper()
	text = regexp.MustCompile(`(?is)<!doctype html>|<meta [^>]*>|<script>.*?</script>|`+
		`<style>.*?</style>`).ReplaceAllString(text, "")
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

// TestThePageInABrowser: it draws, in all of its colours and widths, without a complaint.
func TestThePageInABrowser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(page(t, sample(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{
		"wide and light":  {"--window-size=1280,900", "--blink-settings=preferredColorScheme=1"},
		"narrow and dark": {"--window-size=390,844", "--blink-settings=preferredColorScheme=0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := browser.Open(t, "file://"+file, time.Second, flags...)
			if p.Console != nil {
				t.Errorf("the console has %q", p.Console)
			}
			if n := len(regexp.MustCompile(`class="curve"[^>]* d="M[0-9.]+ [0-9.]+L`).FindAllString(p.DOM, -1)); n != 7 {
				t.Errorf("%d curves are drawn, want 7", n)
			}
			for _, want := range []string{"0.2197", "1.1250", "swiglu (npu_<wbr>fused_<wbr>swiglu)",
				`class="tip" role="status" hidden=""`} {
				if !strings.Contains(p.DOM, want) {
					t.Errorf("the document lacks %s", want)
				}
			}
		})
	}
}
