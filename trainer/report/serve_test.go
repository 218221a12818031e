package report_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed98097648/tune/internal/browser"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/report"
)

// serve starts a server for the time of the test, which must leave no goroutine.
func serve(t *testing.T, address, token string, live *report.Live) *report.Server {
	t.Helper()
	before := goleak.IgnoreCurrent()
	s, err := report.Listen(t.Context(), address, token, live)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, before)
	})
	return s
}

// ask makes a request, changed by change, and does not follow where it leads.
func ask(t *testing.T, method, to string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func TestAPortAloneIsThisMachineOnly(t *testing.T) {
	for _, address := range []string{"0", ":0", "127.0.0.1:0", "localhost:0"} {
		s := serve(t, address, "", report.NewLive("out"))
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if host := u.Hostname(); host != "127.0.0.1" && host != "localhost" || u.Port() == "0" {
			t.Errorf("%s is served at %s", address, s.URL)
		}
		if answer, body := ask(t, http.MethodGet, s.URL, nil); answer.StatusCode != http.StatusOK ||
			!strings.Contains(body, "has not begun") {
			t.Errorf("%s: %s", address, answer.Status)
		}
	}
}

func TestAddressesThatCannotBe(t *testing.T) {
	taken := serve(t, "0", "", report.NewLive("out"))
	for address, want := range map[string]string{
		"0.0.0.0:0":          report.ErrNeedsToken.Error(),
		"[::]:0":             report.ErrNeedsToken.Error(),
		"192.0.2.1:80":       report.ErrNeedsToken.Error(),
		"here":               "here",
		"a:b:c":              "is no address",
		"127.0.0.1:http2000": "http2000",
		strings.TrimSuffix(strings.TrimPrefix(taken.URL, "http://"),
			"/"): "address already in use; choose another port, or 0",
	} {
		s, err := report.Listen(t.Context(), address, "", report.NewLive("out"))
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err,
			report.ErrNeedsToken) != (want == report.ErrNeedsToken.Error()) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func TestOnlyThisMachineIsMeantAndOnlyRead(t *testing.T) {
	s := serve(t, "0", "", report.NewLive("out"))
	host := strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), "/")
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "", host, 200}, {"HEAD", "", host, 200}, {"GET", "run.json", host, 200},
		{"GET", "", "LOCALHOST:" + port, 200}, {"GET", "", "[::1]", 200},
		{"GET", "", "example.org", 403}, {"GET", "", "example.org:" + port, 403}, {"GET", "", "127.0.0.1.example.org", 403},
		{"GET", "run.json", "localhost.example.org", 403},
		{"GET", "other", host, 404}, {"GET", "../etc/passwd", host, 404},
		{"POST", "", host, 405}, {"PUT", "run.json", host, 405}, {"DELETE", "", host, 405}, {"OPTIONS", "", host, 405},
	} {
		answer, _ := ask(t, tt.method, s.URL+tt.path, func(r *http.Request) { r.Host = tt.host })
		if answer.StatusCode != tt.want {
			t.Errorf("%s /%s of %s: %s, want %d", tt.method, tt.path, tt.host, answer.Status, tt.want)
		}
		for header, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer",
			"X-Frame-Options": "DENY", "Access-Control-Allow-Origin": ""} {
			if got := answer.Header.Get(header); got != want {
				t.Errorf("%s is %q, want %q", header, got, want)
			}
		}
	}
}

func TestATokenIsNeededAndIsNotLeftInTheAddress(t *testing.T) {
	const token = "secret & more"
	s := serve(t, "127.0.0.1:0", token, report.NewLive("out"))
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if u.Query().Get("token") != token {
		t.Errorf("the address is %s", s.URL)
	}
	plain := "http://" + u.Host + "/"
	for name, tt := range map[string]struct {
		to     string
		change func(*http.Request)
		want   int
	}{
		"none":              {plain, nil, 401},
		"none for the JSON": {plain + "run.json", nil, 401},
		"a wrong one":       {plain + "?token=secret", nil, 401},
		"an empty one":      {plain + "?token=", nil, 401},
		"the beginning":     {plain + "?token=s", nil, 401},
		"a wrong header":    {plain, func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret") }, 401},
		"a wrong cookie": {plain, func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: "tune-" + u.Port(),
				Value: "secret"})
		}, 401},
		"the token itself":   {s.URL, nil, 303},
		"the right header":   {plain, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, 200},
		"for another site":   {s.URL, func(r *http.Request) { r.Host = "example.org" }, 403},
		"to change anything": {s.URL, func(r *http.Request) { r.Method = "POST" }, 405},
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := ask(t, http.MethodGet, tt.to, tt.change)
			if answer.StatusCode != tt.want {
				t.Errorf("%s, want %d", answer.Status, tt.want)
			}
			if tt.want >= 400 && (strings.Contains(body, token) || strings.Contains(body, "<title>")) {
				t.Errorf("the answer tells %s", body)
			}
		})
	}
	if answer, _ := ask(t, http.MethodGet, plain+"/example.org?token=secret+%26+more",
		nil); answer.Header.Get("Location") != "/example.org" {
		t.Errorf("a path with two slashes leads to %q", answer.Header.Get("Location"))
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answer, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 200 || answer.Request.URL.RawQuery != "" {
		t.Errorf("%s at %s", answer.Status, answer.Request.URL)
	}
	for _, c := range jar.Cookies(u) {
		if strings.Contains(c.Value, "secret") {
			t.Errorf("the cookie is %s", c.Value)
		}
	}
}

func TestThePageChangesWithTheRun(t *testing.T) {
	live := report.NewLive("out")
	s := serve(t, "0", "", live)
	first, _ := ask(t, http.MethodGet, s.URL, nil)
	tag := first.Header.Get("ETag")
	same := func(r *http.Request) { r.Header.Set("If-None-Match", tag) }
	if answer, _ := ask(t, http.MethodGet, s.URL, same); answer.StatusCode != http.StatusNotModified {
		t.Errorf("nothing has happened, and the answer is %s", answer.Status)
	}
	record(t, live, start(), &journal.Step{Time: noon, Step: 1, Loss: 2.125}, &journal.End{Time: noon, Step: 1})
	if answer, body := ask(t, http.MethodGet, s.URL, same); answer.StatusCode != http.StatusOK ||
		!strings.Contains(body, "2.1250") || !strings.Contains(body, "Ended after step 1") {
		t.Errorf("the run has ended, and the answer is %s", answer.Status)
	}
	_, body := ask(t, http.MethodGet, s.URL+"run.json", nil)
	var run journal.Run
	if err := json.Unmarshal([]byte(body), &run); err != nil || len(run.Steps) != 1 || run.End == nil {
		t.Errorf("%v, %s", err, body)
	}
}

// TestManyLookOnWhileTheRunGoesOn is for the race detector.
func TestManyLookOnWhileTheRunGoesOn(t *testing.T) {
	live := report.NewLive("out")
	s := serve(t, "0", "", live)
	var lookers sync.WaitGroup
	for _, path := range []string{"", "", "run.json"} {
		lookers.Go(func() {
			for range 10 {
				answer, err := http.Get(s.URL + path)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
	}
	live.Resume(sample(t))
	for resumed := range 5 {
		from := start()
		from.Resumed = 10 * (resumed + 1)
		record(t, live, from)
		for i := range 100 {
			record(t, live, &journal.Step{Time: noon, Step: from.Resumed + 1 + i, Loss: 1})
		}
	}
	lookers.Wait()
}

func TestAClosedPageIsNotServed(t *testing.T) {
	live := report.NewLive("out")
	s, err := report.Listen(t.Context(), "0", "", live)
	if err != nil {
		t.Fatal(err)
	}
	record(t, live, start(), &journal.End{})
	s.Close()
	if _, err := http.Get(s.URL); err == nil {
		t.Error("it is still served")
	}
}

// TestNobodyWhoIsGoneIsWaitedFor has a clock that moves only while somebody waits.
func TestNobodyWhoIsGoneIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := report.NewLive("out")
		record(t, live, start(), &journal.End{})
		begun := time.Now()
		live.Linger()
		if took := time.Since(begun); took != 0 {
			t.Errorf("it waited %v for a page that nobody looks at", took)
		}
	})
}

// TestTheLivePageInABrowser lets the run go on to its end when the browser has the page.
func TestTheLivePageInABrowser(t *testing.T) {
	live := report.NewLive("/somewhere/my-run")
	record(t, live, start(), &journal.Step{Time: time.Now(), Step: 1, Loss: 7.5, Tokens: 10, Seconds: 2})
	s := serve(t, "0", "a token", live)
	goOn := sync.OnceFunc(func() {
		for i := 2; i <= 200; i++ {
			live.Record(&journal.Step{Time: noon, Step: i, Loss: 5, Tokens: 10, Seconds: 1})
		}
		live.Record(&journal.Eval{Time: noon, Step: 200, Loss: 4.625})
		live.Record(&journal.Kernels{Time: noon, Step: 200, Calls: []journal.Call{{Op: "rope", Kernel: "npu_fused_rope",
			Pass: "forward", Calls: 1, Seconds: 1}}})
		live.Record(&journal.End{Time: noon, Step: 200})
	})
	// The browser's clock does not wait for a run that is slower than it asks: who asks again finds the end.
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		if !r.URL.Query().Has("token") { // where that leads is the page
			goOn()
		}
	}))
	defer front.Close()
	p := browser.Open(t, front.URL+"/?token=a+token", 10*time.Second)
	for _, want := range []string{"Ended after step 200 of 200", "5.0000 at last", "<b>4.6250</b>",
		"npu_<wbr>fused_<wbr>rope", `class="curve"`} {
		if !strings.Contains(p.DOM, want) {
			t.Errorf("the document lacks %s", want)
		}
	}
	if p.Console != nil {
		t.Errorf("the console has %q", p.Console)
	}
}
