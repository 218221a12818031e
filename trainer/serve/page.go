package serve

import (
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"net/http"
	"strings"
)

// pageHTML is a page to talk with the models, which is whole in itself.
//
//go:embed page.html
var pageHTML string

// page answers with it. The policy lets the page's own script run and ask this server, and nothing else.
func (s *Server) page(w http.ResponseWriter, _ *http.Request) error {
	_, script, _ := strings.Cut(pageHTML, "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	sum := sha256.Sum256([]byte(script))
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "+
		"script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; img-src data:; base-uri 'none'; "+
		"form-action 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	extendWrite(w)
	if _, err := w.Write([]byte(pageHTML)); err != nil {
		return errGone
	}
	return nil
}
