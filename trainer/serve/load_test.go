package serve_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed98097648/tune/trainer/serve"
)

// TestManyClientsAreAllAnswered: 64 of them ask for texts of random lengths, hang up now and then and make mistakes.
// Each request that waits for its answer gets one, and nothing is left behind.
func TestManyClientsAreAllAnswered(t *testing.T) {
	noLeak(t)
	e := realEngine(t)
	s := start(t, e, plainTemplate, func(c *serve.Config) { c.MaxTexts = 64 * 6 })
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	l := &load{t: t, site: s, client: &http.Client{Transport: transport}, want: map[int]string{}}
	for n := 1; n <= 24; n++ { // what each is answered alone
		l.want[n] = s.whole("/v1/completions", l.body(n)).Choices[0].Text
	}
	var clients sync.WaitGroup
	for i := range 64 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 6 {
				l.ask(random)
			}
		})
	}
	clients.Wait()
	if l.answered.Load()+l.refused.Load()+l.left.Load() != 64*6 || l.answered.Load() == 0 || l.left.Load() == 0 ||
		l.refused.Load() == 0 {
		t.Errorf("%d answered, %d refused, %d left", l.answered.Load(), l.refused.Load(), l.left.Load())
	}
	until(t, "all texts have ended, and their blocks are free", func() bool {
		s := e.Stats()
		return s.Running == 0 && s.Waiting == 0 && s.BlocksUsed == 0
	})
	if status, b := s.post("/v1/completions", `{"prompt": "x"}`); status != 200 {
		t.Errorf("afterwards: status %d\n%s", status, b)
	}
}

// load is what clients ask, and what became of it.
type load struct {
	t                       *testing.T
	site                    *site
	client                  *http.Client
	want                    map[int]string
	answered, refused, left atomic.Int64
}

// body asks for a text of n tokens.
func (l *load) body(n int) string {
	return fmt.Sprintf(`{"prompt": "%s", "max_tokens": %d, "temperature": 0.8, "seed": %d}`, strings.Repeat("ab", n), n, n)
}

func (l *load) ask(random *rand.Rand) {
	n, kind := 1+random.IntN(24), random.IntN(4)
	body, wrong := l.body(n), kind == 0
	if wrong {
		body = `{"prompt": "` + strings.Repeat("x", 300) + `"}`
	} else if kind == 1 {
		body = body[:len(body)-1] + `, "stream": true}`
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	if kind == 2 {
		// Some come to their end before.
		defer time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, cancel).Stop()
	}
	r, err := http.NewRequestWithContext(ctx, "POST", l.site.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return
	}
	answer, err := l.client.Do(r)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(answer.Body)
		answer.Body.Close()
	}
	switch {
	case err != nil && kind == 2:
		l.left.Add(1)
	case err != nil:
		l.t.Error(err)
	case wrong && answer.StatusCode == 400:
		l.refused.Add(1)
	case answer.StatusCode != 200:
		l.t.Errorf("%s: status %d\n%s", body, answer.StatusCode, b)
	default:
		l.check(n, kind == 1, b)
	}
}

func (l *load) check(n int, stream bool, b []byte) {
	chunks := []answer{}
	if stream {
		chunks = events(l.t, b)
	} else {
		chunks = append(chunks, decode(l.t, b))
	}
	if texts, _ := joined(chunks, 1); texts[0] != l.want[n] {
		l.t.Errorf("%d tokens: %q, alone %q", n, texts[0], l.want[n])
	}
	l.answered.Add(1)
}
