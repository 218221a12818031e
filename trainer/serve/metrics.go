package serve

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer/generate"
)

// metrics are what a server has done, for Prometheus.
type metrics struct {
	mu       sync.Mutex
	requests map[string]int // by the labels of their path and status
	took     map[string]*histogram
	texts    map[string]map[generate.Reason]int // by the model that wrote them
	tokens   map[string]int
	prefill  histogram
}

// bounds are the upper ends of the classes of times, in seconds; one more has the rest.
var bounds = [...]float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300}

// histogram counts times by class.
type histogram struct {
	counts [len(bounds) + 1]int
	sum    float64
}

func (h *histogram) add(took time.Duration) {
	at, _ := slices.BinarySearch(bounds[:], took.Seconds())
	h.counts[at]++
	h.sum += took.Seconds()
}

func (h *histogram) write(b *strings.Builder, name, labels string) {
	n := 0
	for i, bound := range bounds {
		n += h.counts[i]
		fmt.Fprintf(b, "%s_bucket{%sle=\"%g\"} %d\n", name, labels, bound, n)
	}
	n += h.counts[len(bounds)]
	fmt.Fprintf(b, "%s_bucket{%sle=\"+Inf\"} %d\n", name, labels, n)
	of := ""
	if labels != "" {
		of = "{" + strings.TrimSuffix(labels, ",") + "}"
	}
	fmt.Fprintf(b, "%s_sum%s %g\n%s_count%s %d\n", name, of, h.sum, name, of, n)
}

// request counts one that has ended. Pattern is what took it, so that there are few.
func (m *metrics) request(pattern string, status int, took time.Duration) {
	path := pattern[strings.Index(pattern, " ")+1:] // without the method
	labels := fmt.Sprintf("path=%q,", path)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.requests == nil {
		m.requests, m.took = map[string]int{}, map[string]*histogram{}
	}
	m.requests[fmt.Sprintf("%scode=\"%d\"", labels, status)]++
	if m.took[labels] == nil {
		m.took[labels] = &histogram{}
	}
	m.took[labels].add(took)
}

// text counts one that has ended.
func (m *metrics) text(model string, r *generate.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.texts == nil {
		m.texts, m.tokens = map[string]map[generate.Reason]int{}, map[string]int{}
	}
	if m.texts[model] == nil {
		m.texts[model] = map[generate.Reason]int{}
	}
	m.texts[model][r.Reason]++
	m.tokens[model] += len(r.Tokens)
	m.prefill.add(r.Prefill)
}

// writeMetrics writes them in the text form.
func (s *Server) writeMetrics(w http.ResponseWriter, _ *http.Request) error {
	var b strings.Builder
	m := &s.metrics
	m.mu.Lock()
	header(&b, "tune_requests_total", "counter", "Requests that were answered.")
	for _, labels := range slices.Sorted(maps.Keys(m.requests)) {
		fmt.Fprintf(&b, "tune_requests_total{%s} %d\n", labels, m.requests[labels])
	}
	header(&b, "tune_request_seconds", "histogram", "How long requests took.")
	for _, labels := range slices.Sorted(maps.Keys(m.took)) {
		m.took[labels].write(&b, "tune_request_seconds", labels)
	}
	header(&b, "tune_texts_total", "counter", "Texts that have ended, by the model or adapter and the reason.")
	for _, model := range slices.Sorted(maps.Keys(m.texts)) {
		for _, reason := range slices.Sorted(maps.Keys(m.texts[model])) {
			fmt.Fprintf(&b, "tune_texts_total{model=%s,reason=%q} %d\n", labelValue(model), reason, m.texts[model][reason])
		}
	}
	header(&b, "tune_text_tokens_total", "counter", "Tokens of these texts, by the model or adapter.")
	for _, model := range slices.Sorted(maps.Keys(m.tokens)) {
		fmt.Fprintf(&b, "tune_text_tokens_total{model=%s} %d\n", labelValue(model), m.tokens[model])
	}
	header(&b, "tune_prefill_seconds", "histogram", "How long the model read prompts.")
	m.prefill.write(&b, "tune_prefill_seconds", "")
	m.mu.Unlock()
	s.writeEngines(&b)
	writeProcess(&b)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	extendWrite(w)
	if _, err := w.Write([]byte(b.String())); err != nil {
		return errGone
	}
	return nil
}

func header(b *strings.Builder, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// labelValue is a text as Prometheus reads it, which refuses the other escapes that Go has.
func labelValue(text string) string {
	escapes := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	return `"` + escapes.Replace(strings.ToValidUTF8(text, "\uFFFD")) + `"`
}

// writeProcess writes what tells of leaks, under the names that Prometheus' own clients have for it.
func writeProcess(b *strings.Builder) {
	header(b, "go_goroutines", "gauge", "Goroutines of the server.")
	fmt.Fprintf(b, "go_goroutines %d\n", runtime.NumGoroutine())
	if bytes, err := memory.OfProcess(os.Getpid()); err == nil { // it is unknown on some systems
		header(b, "process_resident_memory_bytes", "gauge", "Memory of the server, with what it shares with its plugins.")
		fmt.Fprintf(b, "process_resident_memory_bytes %d\n", bytes)
	}
}

// writeEngines writes what each engine says. Models may share one, which is named after the first.
func (s *Server) writeEngines(b *strings.Builder) {
	models, err := s.loaded()
	if err != nil {
		return
	}
	var names []string
	var stats []generate.Stats
	seen := map[Engine]bool{}
	for _, m := range models {
		if !seen[m.Engine] {
			seen[m.Engine], names, stats = true, append(names, m.Name), append(stats, m.Engine.Stats())
		}
	}
	for _, v := range []struct {
		name, kind, help string
		of               func(generate.Stats) int64
	}{
		{"tune_texts_running", "gauge", "Texts that are written.", func(s generate.Stats) int64 { return int64(s.Running) }},
		{"tune_texts_waiting", "gauge", "Texts that wait.", func(s generate.Stats) int64 { return int64(s.Waiting) }},
		{"tune_cache_blocks_used", "gauge", "Blocks of the cache in use.",
			func(s generate.Stats) int64 { return int64(s.BlocksUsed) }},
		{"tune_cache_blocks", "gauge", "Blocks of the cache.", func(s generate.Stats) int64 { return int64(s.BlocksTotal) }},
		{"tune_prefix_tokens_total", "counter", "Tokens of prompts that were in the cache already.",
			func(s generate.Stats) int64 { return s.PrefixHits }},
		{"tune_prompt_tokens_total", "counter", "Tokens of prompts.", func(s generate.Stats) int64 { return s.Prompt }},
		{"tune_generated_tokens_total", "counter", "Tokens that were chosen.",
			func(s generate.Stats) int64 { return s.Generated }},
	} {
		header(b, v.name, v.kind, v.help)
		for i, name := range names {
			fmt.Fprintf(b, "%s{model=%s} %d\n", v.name, labelValue(name), v.of(stats[i]))
		}
	}
}
