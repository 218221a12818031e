package serve_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed98097648/tune/trainer/serve"
)

// until waits for what other goroutines bring about, however long a busy machine takes for it.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// noLeak looks for goroutines that are left when all else of a test has ended.
func noLeak(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// TestAClientThatHangsUpEndsItsText, whole or streamed, and makes room.
func TestAClientThatHangsUpEndsItsText(t *testing.T) {
	p := &parrot{wait: make(chan struct{})}
	s := start(t, p, plainTemplate, func(c *serve.Config) { c.MaxTexts = 2 })
	for _, body := range []string{`{"prompt": "x"}`, `{"prompt": "x", "stream": true}`, `{"prompt": ["x", "y"]}`} {
		ctx, cancel := context.WithCancel(t.Context())
		ask := func() (*http.Response, error) {
			r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/completions", strings.NewReader(body))
			if err != nil {
				return nil, err
			}
			return http.DefaultClient.Do(r)
		}
		var asked sync.WaitGroup
		asked.Go(func() {
			r, err := ask()
			for ; err == nil && r.StatusCode == http.StatusTooManyRequests; r, err = ask() { // it comes too early
				r.Body.Close()
			}
			if err == nil {
				r.Body.Close()
				t.Error("there is an answer")
			}
		})
		until(t, "a text begins", func() bool { return p.Stats().Running > 0 })
		cancel()
		asked.Wait()
		until(t, "no text goes on", func() bool { return p.Stats().Running == 0 })
	}
}

// TestAClientThatEndsItsSideIsTold: what it gets is no good answer with nothing in it. What comes wrong is not taken
// for what comes too late, after which a client would come again.
func TestAClientThatEndsItsSideIsTold(t *testing.T) {
	for request, status := range map[string]string{
		"Content-Length: 15\r\n\r\n{\"prompt\": \"x\"}":              "499",
		"Content-Length: 99\r\n\r\n{\"prompt\": \"x\"}":              "400",
		"Transfer-Encoding: chunked\r\n\r\nz\r\n{\"prompt\": \"x\"}": "400",
	} {
		s := start(t, &parrot{wait: make(chan struct{})}, plainTemplate, nil)
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"+request)
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(c)
		right := strings.HasPrefix(string(said), "HTTP/1.1 "+status+" ") && strings.Contains(string(said), `{"error":`)
		if err != nil || !right {
			t.Errorf("%q gets %q, %v; want status %s and an error", request, said, err, status)
		}
	}
}

func TestWhoComesTooLateIsToldToComeAgain(t *testing.T) {
	p := &parrot{says: "x", wait: make(chan struct{})}
	s := start(t, p, plainTemplate, func(c *serve.Config) { c.MaxTexts = 2 })
	var asked sync.WaitGroup
	for range 2 {
		asked.Go(func() {
			if status, b := s.post("/v1/completions", `{"prompt": "x"}`); status != 200 {
				t.Errorf("status %d\n%s", status, b)
			}
		})
	}
	until(t, "both texts go on", func() bool { return p.Stats().Running == 2 })
	if r, a := s.send("POST", "/v1/completions", nil, ""); r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" ||
		a.Error.Type != "rate_limit_error" {
		t.Errorf("status %d, %+v", r.StatusCode, a.Error)
	}
	if r, _ := s.send("GET", "/health", nil, ""); r.StatusCode != 200 {
		t.Errorf("status %d", r.StatusCode)
	}
	close(p.wait)
	asked.Wait()
	if r, _ := s.send("POST", "/v1/completions", nil, ""); r.StatusCode != 200 {
		t.Errorf("status %d when there is room again", r.StatusCode)
	}
}

// TestAtTheEndTextsMayGoOnForAWhile, and are cut then; those that come to their end in time are whole.
func TestAtTheEndTextsMayGoOnForAWhile(t *testing.T) {
	noLeak(t)
	for name, tt := range map[string]struct {
		grace     time.Duration
		goes, cut bool // whether the text comes to its end; whether the server is told to cut it
		status    int
	}{
		"in time":  {time.Hour, true, false, 200},
		"too late": {time.Millisecond, false, false, 503},
		"cut":      {time.Hour, false, true, 503},
	} {
		t.Run(name, func(t *testing.T) {
			p := &parrot{says: "x", wait: make(chan struct{})}
			s := start(t, p, plainTemplate, nil)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				if err := s.Serve(ctx, l, tt.grace); err != nil {
					t.Error(err)
				}
			})
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			all.Go(func() {
				r, err := client.Post("http://"+l.Addr().String()+"/v1/completions", "application/json",
					strings.NewReader(`{"prompt": "x"}`))
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Body.Close()
				if b, err := io.ReadAll(r.Body); err != nil || r.StatusCode != tt.status {
					t.Errorf("status %d, want %d\n%s %v", r.StatusCode, tt.status, b, err)
				}
			})
			until(t, "the text goes on", func() bool { return p.Stats().Running == 1 })
			end()
			until(t, "nobody is let in", func() bool {
				c, err := net.Dial("tcp", l.Addr().String())
				if err == nil {
					c.Close()
				}
				return err != nil
			})
			if tt.goes {
				close(p.wait)
			}
			if tt.cut {
				s.Cancel()
			}
			all.Wait()
		})
	}
}
