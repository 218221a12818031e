package serve_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/serve"
)

// TestMetricsHaveTheFormOfPrometheus, and count what was done.
func TestMetricsHaveTheFormOfPrometheus(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, nil)
	s.whole("/v1/completions", `{"prompt": "abc", "max_tokens": 5}`)
	s.post("/v1/completions", `{`)
	s.post("/v1/completions", `{"prompt": ["a", "b"], "max_tokens": 2, "stream": true}`)
	s.post("/a/path/that/is/not/there", "")
	b := s.metrics()
	line := regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+.e0-9]+$`)
	known := map[string]bool{}
	for text := range strings.Lines(b) {
		text = strings.TrimSuffix(text, "\n")
		if fields := strings.Fields(text); fields[0] == "#" {
			known[fields[2]] = true
			continue
		}
		m := line.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("a line is %q", text)
			continue
		}
		name := m[1]
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, end)
		}
		if !known[name] {
			t.Errorf("%q has no type", text)
		}
	}
	for _, want := range []string{`tune_requests_total{path="/v1/completions",code="200"} 2`,
		`tune_requests_total{path="/v1/completions",code="400"} 1`, `tune_requests_total{path="/",code="404"} 1`,
		`tune_request_seconds_count{path="/v1/completions"} 3`, `tune_request_seconds_bucket{path="/",le="+Inf"} 1`,
		`tune_texts_total{model="m",reason="length"} 3`, `tune_text_tokens_total{model="m"} 9`,
		`tune_prefill_seconds_count 3`, `tune_texts_running{model="m"} 0`,
		`tune_prompt_tokens_total{model="m"} 5`, `tune_generated_tokens_total{model="m"} 9`} {
		if !strings.Contains(b, want+"\n") {
			t.Errorf("there is no %s in\n%s", want, b)
		}
	}
}

// TestAModelMayHaveAnyNameInMetrics: what Go would escape in it, but for these, Prometheus takes as it is, and a bad
// line would cost it all of them.
func TestAModelMayHaveAnyNameInMetrics(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, nil)
	s.Ready([]serve.Model{{Name: "a\u200cb\t\\\"\n\xff", Engine: realEngine(t), Tokenizer: byteTokenizer(t)}})
	s.whole("/v1/completions", `{"prompt": "abc", "max_tokens": 5}`)
	b := s.metrics()
	const labels = "{model=\"a\u200cb\t\\\\\\\"\\n\uFFFD\""
	for _, want := range []string{"tune_texts_total" + labels + `,reason="length"} 1`,
		"tune_text_tokens_total" + labels + "} 5", "tune_generated_tokens_total" + labels + "} 5"} {
		if !strings.Contains(b, want+"\n") {
			t.Errorf("there is no %s in\n%s", want, b)
		}
	}
}

func (s *site) metrics() string {
	s.t.Helper()
	r, err := http.Get(s.url + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}
