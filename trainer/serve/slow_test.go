package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/serve"
)

// loud is an engine that says as many tokens as it may, each of 40 KiB.
type loud struct{ parrot }

func (l *loud) Generate(_ context.Context, q generate.Request) (*generate.Result, error) {
	l.add(1)
	defer l.add(-1)
	text := strings.Repeat("x", 40<<10)
	for range q.Options.MaxNewTokens {
		if err := q.Token(generate.Token{ID: 'x', Text: text}); err != nil {
			return nil, err
		}
	}
	return &generate.Result{PromptTokens: len(q.Prompt), Tokens: make([]int32, q.Options.MaxNewTokens),
		Reason: generate.EOS}, nil
}

// TestASlowReaderStopsNobodyElse: a client that reads nothing of a long answer makes neither the engine nor other
// clients wait, and its connection ends with it.
func TestASlowReaderStopsNobodyElse(t *testing.T) {
	p := &loud{}
	s := start(t, p, plainTemplate, nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	asking := func(tokens int) string {
		return fmt.Sprintf(`{"prompt": "x", "stream": true, "max_tokens": %d}`, tokens)
	}
	const many = 400 // more than the buffers of a connection take
	body := asking(many)
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	until(t, "the engine has begun and written the text that nobody reads", func() bool { return p.Stats().Running == 0 })
	another := func(tokens int) {
		if n := len(s.stream("/v1/completions", asking(tokens))); n != tokens+1 {
			t.Errorf("another gets %d pieces of %d and an end", n, tokens)
		}
	}
	another(many) // before it has all, the slow one takes no more
	if n := s.get("/metrics"); strings.Contains(n, `tune_requests_total{path="/v1/completions",code="200"} 2`) {
		t.Error("the slow one has everything already: this test shows nothing")
	}
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() { another(10) })
	}
	others.Wait()
	c.Close() // on a machine so busy that the others took longer than the server waits, it has been given up before
	until(t, "the slow one is given up", func() bool {
		return strings.Contains(s.get("/metrics"), `tune_requests_total{path="/v1/completions",code="200"} 5`)
	})
}

// TestAClientThatLeavesFreesItsBlocksAtOnce, while others go on.
func TestAClientThatLeavesFreesItsBlocksAtOnce(t *testing.T) {
	long := strings.Replace(smallModel, `"max_position_embeddings": 256`, `"max_position_embeddings": 500000`, 1)
	e := engineWith(t, long,
		generate.EngineConfig{Blocks: 20000})
	s := start(t, e, plainTemplate, nil)
	stream := func() *http.Response {
		r, err := http.Post(s.url+"/v1/completions", "application/json",
			strings.NewReader(`{"prompt": "x", "stream": true, "max_tokens": 300000}`))
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(r.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
			t.Fatalf("%q, %v", line, err)
		}
		return r
	}
	stays := stream()
	defer stays.Body.Close()
	for range 3 {
		leaves := stream()
		if n := e.Stats().Running; n != 2 {
			t.Fatalf("%d texts go on", n)
		}
		leaves.Body.Close()
		until(t, "its text has ended", func() bool { return e.Stats().Running == 1 })
	}
	stays.Body.Close()
	until(t, "all blocks are free", func() bool {
		st := e.Stats()
		return st.Running+st.Waiting+st.BlocksUsed == 0
	})
	if n := e.Stats().Generated; n >= 300000 {
		t.Errorf("%d tokens: the texts came to their end", n)
	}
}

// pipes is a listener whose connections are within this process, so that their time may be that of a test.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestARequestThatDoesNotComeIsGivenUp, also one that is refused for its head, by a client without the key.
func TestARequestThatDoesNotComeIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		head   string
		status int
	}{
		{"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n", 408},
		{"POST /v1/completions HTTP/1.1\r\nHost: x\r\n", 401},
		{"POST /nowhere HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n", 404},
		{"POST /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\n", 403},
		{"OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\n", 204},
		{"GET /health HTTP/1.1\r\nHost: x\r\n", 200},
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := serve.New(serve.Config{Key: "key", MaxBody: 100, MaxTexts: 1, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				s.Ready([]serve.Model{{Name: "m", Engine: &parrot{}}})
				listener := make(pipes)
				ctx, end := context.WithCancel(t.Context())
				var served sync.WaitGroup
				served.Go(func() { s.Serve(ctx, listener, 0) })
				here, there := net.Pipe()
				listener <- there
				here.SetDeadline(time.Now().Add(time.Hour))
				fmt.Fprint(here, tt.head+"Content-Length: 50\r\n\r\n{")
				said, err := io.ReadAll(here)
				if err != nil || !strings.HasPrefix(string(said), fmt.Sprintf("HTTP/1.1 %d ", tt.status)) {
					t.Errorf("%v; the server says %q", err, said)
				}
				here.Close()
				end()
				served.Wait()
			})
		})
	}
}
