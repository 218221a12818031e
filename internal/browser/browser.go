// Package browser lets tests open pages in a real browser, Chromium without a window.
package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// Page is a page as the browser had it.
type Page struct {
	DOM     string   // the document after its scripts have run
	Console []string // what was said on the console: errors and violations of policies among it
}

// flags let the browser touch nothing but the page.
var flags = []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
	"--disable-background-networking",
	"--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
	"--enable-logging=stderr", "--log-level=0"}

var consoleLine = regexp.MustCompile(`(?m)^.*:CONSOLE[:(].*$`)

// Open opens a page, gives its scripts some time of the page's own clock, and returns what
// has become of it. More are further flags of the browser. The test is skipped where there
// is no Chromium.
func Open(t *testing.T, url string, scripts time.Duration, more ...string) Page {
	t.Helper()
	exe := find(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // it is slow to start where much else runs
	defer cancel()
	args := append(append([]string{}, flags...), "--user-data-dir="+profile(t), "--dump-dom",
		fmt.Sprintf("--virtual-time-budget=%d", scripts.Milliseconds()))
	cmd := exec.CommandContext(ctx, exe, append(append(args, more...), url)...)
	cmd.WaitDelay = 5 * time.Second
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%s: %v\n%s", exe, err, log.Bytes())
	}
	return Page{DOM: out.String(), Console: consoleLine.FindAllString(log.String(), -1)}
}

// profile returns a folder that is removed at the end of the test, or somewhat later: helpers
// of the browser go on writing there for a moment after its end.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tune-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 100 {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Logf("%s stays behind: %v", dir, err)
	})
	return dir
}

// find returns the browser, or skips the test.
func find(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if exe, err := exec.LookPath(name); err == nil {
			return exe
		}
	}
	t.Skip("there is no chromium on the path; install it to have pages opened in a browser")
	return ""
}
