package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// clients ask at the same time.
const clients = 64

// load is what clients ask, and what became of it.
type load struct {
	t       *testing.T
	url     string
	client  *http.Client
	asked   []loadQuestion
	mu      sync.Mutex
	counts  map[string]int  // of requests that are over, by what became of them
	answers map[string]int  // of whole answers, by the model
	first   []time.Duration // until a stream has its first piece
	whole   []time.Duration // until an answer is complete
}

// loadQuestion is one to which there is one answer.
type loadQuestion struct {
	model, body string // the body without its last brace
	want        string
}

// mistakes are requests that no server should answer, with the status that they get.
var mistakes = []struct {
	path, body string
	status     int
}{
	{"/v1/completions", `{"prompt": `, 400},
	{"/v1/completions", `{"prompt": {"a": 1}}`, 400},
	{"/v1/completions", `{"prompt": "x", "n": 0}`, 400},
	{"/v1/completions", `{"prompt": "x", "temperature": -1}`, 400},
	{"/v1/completions", `{"prompt": [70000]}`, 400},
	{"/v1/completions", `{"prompt": "` + strings.Repeat("long ", 2000) + `"}`, 400},
	{"/v1/completions", `{"prompt": "` + strings.Repeat("long ", 20000) + `"}`, 413},
	{"/v1/completions", `{"prompt": "x", "model": "nobody"}`, 404},
	{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}]}`, 400}, // there is no template
	{"/v1/nothing", `{}`, 404},
}

func newClients(t *testing.T, url string, models []string) *load {
	l := &load{t: t, url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}},
		counts: map[string]int{}, answers: map[string]int{}}
	begin := "Once upon a time there was a little girl who had a red ball. One day she went to the park with her mum"
	for i := range 48 {
		b := fmt.Sprintf(`{"model": %q, "prompt": %q, "max_tokens": %d, "seed": %d, "temperature": %g`,
			models[i%len(models)], begin[:4+2*i], 1+(i*37)%60, i, 0.8*float64(i%2))
		l.asked = append(l.asked, loadQuestion{model: models[i%len(models)], body: b})
	}
	return l
}

// alone asks each question while nobody else does.
func (l *load) alone() {
	for i := range l.asked {
		q := &l.asked[i]
		status, text, _ := l.post(l.t.Context(), "/v1/completions", q.body+"}", -1)
		if q.want = text; status != http.StatusOK {
			l.t.Fatalf("%s}: status %d", q.body, status)
		}
	}
}

// ask makes one request of some kind.
func (l *load) ask(random *rand.Rand) {
	q, kind := l.asked[random.IntN(len(l.asked))], random.IntN(10)
	switch {
	case kind < 4:
		l.right(q, "}")
	case kind < 7:
		l.right(q, `, "stream": true}`)
	case kind < 8: // leaves while the answer comes, or before
		status, _, err := l.post(l.t.Context(), "/v1/completions", q.body+`, "stream": true}`, random.IntN(20))
		l.over("left", err == nil && status == http.StatusOK, q.body, status, err)
	case kind < 9: // leaves after a while, often before there is an answer; some come to their end
		ctx, cancel := context.WithTimeout(l.t.Context(), time.Duration(random.IntN(300))*time.Millisecond)
		defer cancel()
		status, text, err := l.post(ctx, "/v1/completions", q.body+"}", -1)
		l.over("left or answered", ctx.Err() != nil || err == nil && status == 200 && text == q.want, q.body, status, err)
	default:
		m := mistakes[random.IntN(len(mistakes))]
		status, _, err := l.post(l.t.Context(), m.path, m.body, -1)
		l.over("refused", err == nil && status == m.status, m.body[:min(len(m.body), 80)], status, err)
	}
}

// right asks a question that must be answered.
func (l *load) right(q loadQuestion, end string) {
	status, text, err := l.post(l.t.Context(), "/v1/completions", q.body+end, -1)
	l.over("answered", err == nil && status == http.StatusOK, q.body, status, err)
	if err == nil && text != q.want {
		l.t.Errorf("%s}: %q, alone %q", q.body, text, q.want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[q.model]++
}

// made returns how many requests are over.
func (l *load) made() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.counts {
		n += of
	}
	return n
}

func (l *load) over(as string, right bool, body string, status int, err error) {
	if !right {
		l.t.Errorf("%s: status %d, %v", body, status, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[as]++
}

// post returns the text of an answer, which is whole or a stream; of a stream it reads some pieces, or all for -1.
func (l *load) post(ctx context.Context, path, body string, pieces int) (status int, text string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", l.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	begun := time.Now()
	answer, err := l.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, "", err
	}
	var first time.Duration
	if answer.Header.Get("Content-Type") == "text/event-stream" {
		text, first, err = readStream(answer.Body, begun, pieces)
	} else {
		var b []byte
		if b, err = io.ReadAll(answer.Body); err == nil {
			text, err = textOf(b)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first > 0 {
		l.first = append(l.first, first)
	}
	if err == nil && pieces < 0 {
		l.whole = append(l.whole, time.Since(begun))
	}
	return answer.StatusCode, text, err
}

// readStream returns the text of a stream that must end as one should, unless only some pieces are read.
func readStream(r io.Reader, begun time.Time, pieces int) (text string, first time.Duration, err error) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if data == "[DONE]" {
			return text, first, nil
		}
		if !ok {
			continue
		}
		if first == 0 {
			first = time.Since(begun)
		}
		if pieces == 0 {
			return text, first, nil
		}
		pieces--
		more, err := textOf([]byte(data))
		if err != nil {
			return text, first, err
		}
		text += more
	}
	return text, first, fmt.Errorf("the stream ends after %q", text)
}

func textOf(b []byte) (string, error) {
	var a struct {
		Choices []struct{ Text string }
		Error   *struct{ Message string }
	}
	switch err := json.Unmarshal(b, &a); {
	case err != nil:
		return "", err
	case a.Error != nil:
		return "", fmt.Errorf("an error: %s", a.Error.Message)
	case len(a.Choices) != 1:
		return "", fmt.Errorf("%d choices", len(a.Choices))
	}
	return a.Choices[0].Text, nil
}

// report says how much was done and how long it took.
func (l *load) report() string {
	at := func(times []time.Duration, share float64) time.Duration {
		if len(times) == 0 {
			return 0
		}
		slices.Sort(times)
		return times[int(share*float64(len(times)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("requests %v, answers %v; first piece of a stream p50 %v, p99 %v; whole answer p50 %v, p99 %v",
		l.counts, l.answers, at(l.first, .5), at(l.first, .99), at(l.whole, .5), at(l.whole, .99))
}

// complete checks that each kind of request was made, and that the server has counted no fewer than were.
func (l *load) complete(t *testing.T, metrics map[string]float64) {
	made, counted := 0, 0.0
	for _, kind := range []string{"answered", "refused", "left", "left or answered"} {
		if made += l.counts[kind]; l.counts[kind] == 0 {
			t.Errorf("no request was %s", kind)
		}
	}
	for name, n := range metrics {
		if strings.HasPrefix(name, "tune_requests_total{") && !strings.Contains(name, `"/metrics"`) {
			counted += n
		}
	}
	if sent := float64(made + len(l.asked)); counted > sent || counted < sent-float64(l.counts["left or answered"]) {
		t.Errorf("the server has counted %g requests of %g; who left before it was sent may be missing", counted, sent)
	}
}
