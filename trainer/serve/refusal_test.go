package serve_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/serve"
)

func TestWhatCannotBeDoneIsRefused(t *testing.T) {
	const (
		chat  = "/v1/chat/completions"
		text  = "/v1/completions"
		hello = `"messages": [{"role": "user", "content": "Hi"}]`
		tools = `"tools": [{"type": "function", "function": {"name": "f"}}]`
	)
	s := start(t, realEngine(t), plainTemplate, nil)
	for _, tt := range []struct {
		path, body, param string
		status            int
	}{
		{chat, `{`, "", 400},
		{chat, `[]`, "", 400},
		{chat, `{"messages": 5}`, "messages", 400},
		{chat, `{"messages": [{"role": "user", "content": "` + "\xff" + `"}]}`, "", 400},
		{chat, `{"messages": [{"role": "user", "content": "\ud83d"}]}`, "", 400},
		{chat, `{}`, "messages", 400},
		{chat, `{"messages": []}`, "messages", 400},
		{chat, `{"messages": [{"content": "x"}]}`, "messages", 400},
		{chat, `{"messages": [null]}`, "messages", 400},
		{chat, `{"messages": [{"role": "boss", "content": "x"}]}`, "messages", 400},
		{chat, `{"messages": [{"role": "user", "content": null}]}`, "messages", 400},
		{chat, `{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}`,
			"messages", 400},
		{chat, `{"messages": [{"role": "assistant", "content": null, "tool_calls": []}]}`, "messages", 400},
		{chat, `{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]}`,
			"messages", 400},
		{chat, `{"model": "base", ` + hello + `}`, "model", 400},
		{chat, `{"model": "other", ` + hello + `}`, "model", 404},
		{chat, `{` + hello + `, "temperature": "hot"}`, "temperature", 400},
		{chat, `{` + hello + `, "temperature": -1}`, "temperature", 400},
		{chat, `{` + hello + `, "top_p": 2}`, "top_p", 400},
		{chat, `{` + hello + `, "top_k": -2}`, "top_k", 400},
		{chat, `{` + hello + `, "min_p": 2}`, "min_p", 400},
		{chat, `{` + hello + `, "repetition_penalty": -1}`, "repetition_penalty", 400},
		{chat, `{` + hello + `, "repetition_penalty": 0}`, "repetition_penalty", 400},
		{chat, `{` + hello + `, "repetition_penalty": 1e-310}`, "repetition_penalty", 400},
		{chat, `{` + hello + `, "repetition_penalty": 1e308}`, "repetition_penalty", 400},
		{chat, `{` + hello + `, "frequency_penalty": 0.5}`, "frequency_penalty", 400},
		{chat, `{` + hello + `, "presence_penalty": 0.5}`, "presence_penalty", 400},
		{chat, `{` + hello + `, "logit_bias": {"5": 1}}`, "logit_bias", 400},
		{chat, `{` + hello + `, "n": 0}`, "n", 400},
		{chat, `{` + hello + `, "n": 17}`, "n", 400},
		{chat, `{` + hello + `, "n": 9}`, "n", 400},
		{chat, `{` + hello + `, "max_tokens": 0}`, "max_tokens", 400},
		{chat, `{` + hello + `, "max_completion_tokens": -1}`, "max_completion_tokens", 400},
		{chat, `{` + hello + `, "stop": ""}`, "stop", 400},
		{chat, `{` + hello + `, "stop": 5}`, "stop", 400},
		{chat, `{` + hello + `, "stop": [` + strings.Repeat(`"x",`, 16) + `"x"]}`, "stop", 400},
		{chat, `{` + hello + `, "top_logprobs": 2}`, "top_logprobs", 400},
		{chat, `{` + hello + `, "logprobs": true, "top_logprobs": 21}`, "top_logprobs", 400},
		{chat, `{` + hello + `, "response_format": {"type": "json_object"}}`, "response_format", 400},
		{chat, `{` + hello + `, "modalities": ["audio"]}`, "modalities", 400},
		{chat, `{` + hello + `, "functions": [{"name": "f"}]}`, "functions", 400},
		{chat, `{` + hello + `, ` + tools + `}`, "tools", 400},
		{chat, `{` + hello + `, "tools": [{"type": "function"}]}`, "tools", 400},
		{chat, `{` + hello + `, "tools": "f"}`, "tools", 400},
		{chat, `{` + hello + `, ` + tools + `, "tool_choice": "required"}`, "tool_choice", 400},
		{chat, `{` + hello + `, "tools": [{"type": "function", "function": {"name": ""}}]}`, "tools", 400},
		{chat, `{` + hello + `, "tool_choice": "required"}`, "tool_choice", 400},
		{chat, `{` + hello + `, "chat_template_kwargs": "x"}`, "chat_template_kwargs", 400},
		{chat, `{` + hello + `, "chat_template_kwargs": {"messages": []}}`, "chat_template_kwargs", 400},
		{chat, `{` + hello + `, "chat_template_kwargs": {"tools": []}}`, "chat_template_kwargs", 400},
		{chat, `{` + hello + `, "chat_template_kwargs": {"add_generation_prompt": false}}`, "chat_template_kwargs", 400},
		{chat, `{"messages": [{"role": "user", "content": "` + strings.Repeat("x", 300) + `"}]}`, "messages", 400},
		{text, `{}`, "prompt", 400},
		{text, `{"prompt": ""}`, "prompt", 400},
		{text, `{"prompt": []}`, "prompt", 400},
		{text, `{"prompt": {"a": 1}}`, "prompt", 400},
		{text, `{"prompt": [300]}`, "prompt", 400},
		{text, `{"prompt": ["a", 5]}`, "prompt", 400},
		{text, `{"prompt": ["a", null]}`, "prompt", 400},
		{text, `{"prompt": [1, null]}`, "prompt", 400},
		{text, `{"prompt": [[1], [null]]}`, "prompt", 400},
		{text, `{"prompt": [[1], null]}`, "prompt", 400},
		{text, `{"prompt": "x", "logprobs": 21}`, "logprobs", 400},
		{text, `{"prompt": "x", "logprobs": 1, "echo": true}`, "logprobs", 400},
		{text, `{"prompt": "x", "best_of": 2}`, "best_of", 400},
		{text, `{"prompt": "x", "suffix": "y"}`, "suffix", 400},
		{text, `{"prompt": ["a", "b", "c"], "n": 3}`, "prompt", 400},
		{text, `{"prompt": "a", "n": 9}`, "n", 400},
		{text, `{"prompt": "` + strings.Repeat("x", 1<<16) + `"}`, "", 413},
		{"/v1/embeddings", `{}`, "", 404},
	} {
		status, b := s.post(tt.path, tt.body)
		a := decode(t, b)
		if a.Error == nil || status != tt.status || a.Error.Param != tt.param || a.Error.Message == "" ||
			strings.Contains(a.Error.Message, "generate.") {
			t.Errorf("%.100s: %d %.300s, want %d with the parameter %q", tt.body, status, b, tt.status, tt.param)
		}
	}
}

// TestHalvesOfCharactersAreRefused, and characters that are written as two escapes are not.
func TestHalvesOfCharactersAreRefused(t *testing.T) {
	s := start(t, &parrot{wait: ready}, plainTemplate, nil)
	for escaped, want := range map[string]int{
		`\ud83d\ude00`: 200, `\uD83D\uDE00\ud83d\ude00x`: 200, `\u00e9\n\\ud83d`: 200, `\\\ud83d\ude00`: 200,
		`\ud83d`: 400, `\ud83dx\ude00`: 400, `\ude00`: 400, `\ude00\ud83d`: 400, `\ud83d\u00e9`: 400, `\ud83d\n`: 400,
		`\ud83d\ud83d\ude00`: 400, `\\\ud83d`: 400,
	} {
		if status, b := s.post("/v1/completions", `{"prompt": "`+escaped+`"}`); status != want {
			t.Errorf("%s: %d %s", escaped, status, b)
		}
	}
}

// get returns the status and header of an answer, and its error's code.
func (s *site) send(method, path string, header map[string]string, host string) (*http.Response, answer) {
	s.t.Helper()
	body := ""
	if method == http.MethodPost {
		body = `{"prompt": "x", "max_tokens": 1}`
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	r.Host = host
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	var a answer
	if got.StatusCode >= 400 {
		b := make([]byte, 4096)
		n, _ := got.Body.Read(b)
		a = decode(s.t, b[:n])
	}
	return got, a
}

func TestTheKeyIsAskedFor(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, func(c *serve.Config) { c.Key = "secret" })
	for _, tt := range []struct {
		method, path, authorization string
		status                      int
	}{
		{"GET", "/v1/models", "", 401}, {"GET", "/v1/models", "Bearer wrong", 401}, {"GET", "/v1/models", "secret", 401},
		{"GET", "/v1/models", "Basic secret", 401}, {"GET", "/v1/models", "Bearer secret", 200},
		{"GET", "/v1/models", "bearer secret", 200}, {"GET", "/v1/models/m", "Bearer secret", 200},
		{"GET", "/v1/models/x", "Bearer secret", 404}, {"POST", "/v1/completions", "", 401},
		{"POST", "/v1/completions", "Bearer secret", 200}, {"GET", "/metrics", "", 401},
		{"GET", "/metrics", "Bearer secret", 200}, {"GET", "/health", "", 200}, {"GET", "/", "", 200},
		{"GET", "/elsewhere", "", 401}, {"OPTIONS", "/v1/models", "", 204},
	} {
		r, a := s.send(tt.method, tt.path, map[string]string{"Authorization": tt.authorization}, "")
		if r.StatusCode != tt.status || tt.status == 401 && a.Error.Code != "invalid_api_key" {
			t.Errorf("%+v: status %d, %+v", tt, r.StatusCode, a.Error)
		}
	}
}

func TestPagesOfOtherOriginsAreKeptOut(t *testing.T) {
	const own, other = "https://own.example", "https://other.example"
	e := realEngine(t)
	for name, tt := range map[string]struct {
		origins, hosts []string
		method, origin string
		host           string
		status         int
		allowed        bool
	}{
		"a program":                  {nil, nil, "POST", "", "", 200, false},
		"none allowed":               {nil, nil, "POST", other, "", 403, false},
		"another allowed":            {[]string{own}, nil, "POST", other, "", 403, false},
		"allowed":                    {[]string{own}, nil, "POST", own, "", 200, true},
		"allowed in capitals":        {[]string{"HTTPS://Own.Example"}, nil, "POST", own, "", 200, true},
		"all allowed":                {[]string{"*"}, nil, "POST", other, "", 200, true},
		"the browser's question":     {[]string{own}, nil, "OPTIONS", own, "", 204, true},
		"refused":                    {[]string{own}, nil, "OPTIONS", other, "", 204, false},
		"another name":               {nil, []string{"here"}, "POST", "", "evil.example:80", 403, false},
		"its name":                   {nil, []string{"here"}, "POST", "", "here:80", 200, false},
		"its name in capitals":       {nil, []string{"Here"}, "POST", "", "HERE:80", 200, false},
		"localhost":                  {nil, []string{"here"}, "POST", "", "localhost:80", 200, false},
		"an address":                 {nil, []string{"here"}, "POST", "", "[::1]:80", 200, false},
		"any name where none is set": {nil, nil, "POST", "", "evil.example", 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, e, plainTemplate, func(c *serve.Config) { c.Origins, c.Hosts = tt.origins, tt.hosts })
			header := map[string]string{}
			if tt.origin != "" {
				header["Origin"] = tt.origin
				header["Sec-Fetch-Site"] = "cross-site"
			}
			r, _ := s.send(tt.method, "/v1/completions", header, tt.host)
			if got := r.Header.Get("Access-Control-Allow-Origin"); r.StatusCode != tt.status || (got == tt.origin &&
				got != "") != tt.allowed {
				t.Errorf("status %d, allowed %q", r.StatusCode, got)
			}
		})
	}
}

// TestAProgramNeedNotNameTheServer, as HTTP/1.0 has it: no browser leaves that out.
func TestAProgramNeedNotNameTheServer(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, func(c *serve.Config) { c.Hosts = []string{"here"} })
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/health", nil)
	r.Host = ""
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestAnOriginIsChecked(t *testing.T) {
	if _, err := serve.New(serve.Config{Origins: []string{"example.org"}}); err == nil {
		t.Error("an origin without a scheme is taken")
	}
}

// TestNothingIsAnsweredBeforeThereIsAModel, and clients are told to come again.
func TestNothingIsAnsweredBeforeThereIsAModel(t *testing.T) {
	s := start(t, realEngine(t), plainTemplate, nil)
	empty, err := serve.New(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	loading := *s
	listener := newListener(t, empty)
	loading.url = listener
	for _, path := range []string{"/health", "/v1/models", "/v1/models/m"} {
		if r, a := loading.send("GET", path, nil, ""); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" ||
			a.Error.Type != "server_error" {
			t.Errorf("%s: status %d, %+v", path, r.StatusCode, a.Error)
		}
	}
	if r, _ := loading.send("POST", "/v1/completions", nil, ""); r.StatusCode != 503 {
		t.Errorf("status %d", r.StatusCode)
	}
	for path, want := range map[string]int{"/": 200, "/metrics": 200} {
		if r, _ := loading.send("GET", path, nil, ""); r.StatusCode != want {
			t.Errorf("%s: status %d", path, r.StatusCode)
		}
	}
	if r, _ := s.send("GET", "/health", nil, ""); r.StatusCode != 200 {
		t.Errorf("status %d with a model", r.StatusCode)
	}
}

func TestAFailureOfTheEngineHasNoDetails(t *testing.T) {
	secret := errors.New("/home/user/secret is broken")
	s := start(t, &parrot{wait: ready, fails: secret}, plainTemplate, nil)
	r, a := s.send("POST", "/v1/completions", nil, "")
	if r.StatusCode != 500 || a.Error.Type != "server_error" || strings.Contains(a.Error.Message, "secret") {
		t.Errorf("status %d, %+v", r.StatusCode, a.Error)
	}
	s = start(t, &parrot{says: "abc", wait: ready, fails: secret}, plainTemplate, nil)
	status, b := s.post("/v1/completions", `{"prompt": "x", "stream": true}`)
	chunks := events(t, b)
	last := chunks[len(chunks)-1]
	if texts, _ := joined(chunks, 1); status != 200 || texts[0] != "abc" || last.Error == nil ||
		last.Error.Type != "server_error" || strings.Contains(string(b), "[DONE]") {
		t.Errorf("status %d\n%s", status, b)
	}
}

// TestTheLogSaysWhyARequestIsRefused to who runs the server and does not see the answer.
func TestTheLogSaysWhyARequestIsRefused(t *testing.T) {
	var log bytes.Buffer
	s, err := serve.New(serve.Config{MaxBody: 1 << 16, MaxTexts: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.Ready([]serve.Model{{Name: "m", Engine: &parrot{}}})
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/completions", strings.NewReader(`{"max_tokens": "8"}`))
	s.ServeHTTP(httptest.NewRecorder(), r)
	const want = `status=400 .*error="field max_tokens: want a whole number, have a string"`
	if !regexp.MustCompile(want).MatchString(log.String()) {
		t.Errorf("the log has %q, want %q", log.String(), want)
	}
}
