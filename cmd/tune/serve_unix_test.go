//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startServer starts one with a tiny model, m, and waits until it is ready.
func startServer(t *testing.T, flags ...string) (cmd *exec.Cmd, url string, stderr *bufio.Scanner) {
	t.Helper()
	dir := t.TempDir()
	// Of texts long enough to go on when the server is told to end.
	const positions = `"max_position_embeddings": `
	config := strings.Replace(tinyConfigs["qwen3_moe"], positions+"64", positions+"20000", 1)
	if err := writeConfig(filepath.Join(dir, "m"), []byte(config)); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("tune", append([]string{"serve", "--model", "m", "--port", "0", "--template", "default"},
		flags...)...)
	cmd.Dir = dir
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) // in case the test fails before it ends
	stderr = bufio.NewScanner(pipe)
	for stderr.Scan() {
		if at, ok := strings.CutPrefix(stderr.Text(), "tune: listening at "); ok {
			url = at
		}
		if strings.HasPrefix(stderr.Text(), "tune: ready: m") {
			return cmd, url, stderr
		}
	}
	t.Fatalf("the server ended before it was ready: %v", cmd.Wait())
	return nil, "", nil
}

// isPatience reports whether a line is what every command says that was interrupted and has something to end yet, if
// that takes long.
func isPatience(line string) bool { return strings.HasPrefix(line, "tune: interrupted: ending what ") }

// TestAServerAnswersAsGenerateDoes, to the last character, and ends in order when it is told to.
func TestAServerAnswersAsGenerateDoes(t *testing.T) {
	t.Parallel()
	cmd, url, stderr := startServer(t, "--api-key", " secret\n")
	generate := exec.Command("tune", "generate", "--model", "m", "--chat", "--template", "default", "--prompt", "hi",
		"--max-new-tokens", "12", "--json")
	generate.Dir = cmd.Dir
	out, err := generate.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want struct{ Text string }
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/chat/completions", strings.NewReader(
		`{"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 12}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", answer.StatusCode, err)
	}
	if len(want.Text) == 0 || len(got.Choices) != 1 || got.Choices[0].Message.Content != want.Text {
		t.Errorf("%+v, want %q", got, want.Text)
	}
	http.DefaultClient.CloseIdleConnections()
	send(t, cmd, syscall.SIGTERM)
	for stderr.Scan() {
		if !strings.Contains(stderr.Text(), "level=INFO msg=request") && !isPatience(stderr.Text()) {
			t.Errorf("it says %q", stderr.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestAServerCutsTextsAtItsEnd when their time is over.
func TestAServerCutsTextsAtItsEnd(t *testing.T) {
	t.Parallel()
	cmd, url, _ := startServer(t, "--grace", "1ms", "--quiet")
	r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(
		`{"prompt": "hi", "max_tokens": 100000, "stream": true, "n": 16}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	send(t, cmd, syscall.SIGTERM)
	b, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(b), "data: ") {
		t.Errorf("%v\n%s", err, b)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestAServerAnswersWithAnAdapterAsGenerateDoes, and without it as well.
func TestAServerAnswersWithAnAdapterAsGenerateDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeModel(filepath.Join(dir, "m"), "qwen3_moe"); err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("the quick brown fox ", 40))
	if err := os.WriteFile(filepath.Join(dir, "text.txt"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		cmd := exec.Command("tune", args...)
		cmd.Dir = dir
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, stderr.String())
		}
		return out
	}
	run("--kernels", "none", "--model", "m", "--data", "text.txt", "--seq", "16", "--steps", "8", "--lr", "5e-2",
		"--lora-rank", "3", "--out", "fox")
	cmd, url, _ := startServer(t, "--adapter", "fox="+filepath.Join(dir, "fox"), "--quiet")
	texts := map[string]string{}
	for name, flags := range map[string][]string{"m": nil, "fox": {"--adapter", "fox"}} {
		var want struct{ Text string }
		args := append([]string{"generate", "--model", "m", "--prompt", "the qu", "--max-new-tokens", "12", "--json"},
			flags...)
		if err := json.Unmarshal(run(args...), &want); err != nil {
			t.Fatal(err)
		}
		r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(
			`{"model": "`+name+`", "prompt": "the qu", "max_tokens": 12}`))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var got struct{ Choices []struct{ Text string } }
		err = json.NewDecoder(r.Body).Decode(&got)
		if err != nil || len(got.Choices) != 1 || got.Choices[0].Text != want.Text {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, want.Text)
		}
		texts[want.Text] = name
	}
	if len(texts) != 2 {
		t.Errorf("the adapter changes nothing: %q", texts)
	}
	http.DefaultClient.CloseIdleConnections()
	send(t, cmd, syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestAServerEndsInTheMiddleOfStreams in order: those that have the time come to their end, the others end with an
// error, and no stream ends without a word.
func TestAServerEndsInTheMiddleOfStreams(t *testing.T) {
	t.Parallel()
	for grace, tokens := range map[string]int{"1ms": 19000, "1h": 2000} {
		t.Run(grace, func(t *testing.T) {
			cut := grace == "1ms"
			cmd, url, stderr := startServer(t, "--grace", grace, "--quiet")
			const streams = 8
			ends := make(chan string, streams)
			begun := make(chan struct{}, streams)
			for range streams {
				go func() {
					r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(
						fmt.Sprintf(`{"prompt": "hi", "max_tokens": %d, "stream": true}`, tokens)))
					if err != nil {
						begun <- struct{}{}
						ends <- err.Error()
						return
					}
					defer r.Body.Close()
					lines, last := bufio.NewScanner(r.Body), ""
					for lines.Scan() {
						if last == "" {
							begun <- struct{}{}
						}
						if lines.Text() != "" {
							last = lines.Text()
						}
					}
					if lines.Err() != nil {
						last += lines.Err().Error()
					}
					ends <- last
				}()
			}
			for range streams {
				<-begun
			}
			send(t, cmd, syscall.SIGTERM)
			done, failed := 0, 0
			for range streams {
				switch end := <-ends; {
				case end == "data: [DONE]":
					done++
				case strings.HasPrefix(end, `data: {"error":`) && strings.Contains(end, "the server is ending"):
					failed++
				default:
					t.Errorf("a stream ends with %q", end)
				}
			}
			if cut == (failed == 0) {
				t.Errorf("%d streams came to their end, %d to an error", done, failed)
			}
			for stderr.Scan() {
				if !isPatience(stderr.Text()) {
					t.Errorf("the server says %q", stderr.Text())
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
