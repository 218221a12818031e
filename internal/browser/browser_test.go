package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/browser"
)

// TestOpenSeesWhatScriptsDo, what they complain of, and what a policy forbids.
func TestOpenSeesWhatScriptsDo(t *testing.T) {
	const page = `<!DOCTYPE html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="style-src 'none'">
<title>x</title>
<style>p { color: red }</style><p></p><script>document.querySelector("p").textContent = 6 * 7;
setTimeout(() => undefined.x, 100)</script>`
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	p := browser.Open(t, "file://"+file, time.Second)
	if !strings.Contains(p.DOM, "<p>42</p>") {
		t.Errorf("the document is %s", p.DOM)
	}
	if all := strings.Join(p.Console, "\n"); len(p.Console) != 2 || !strings.Contains(all, "Content Security Policy") ||
		!strings.Contains(all, "Cannot read properties") {
		t.Errorf("the console has %q", p.Console)
	}
}
