package serve_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/browser"
)

// widths are those of a telephone and of a desk.
var widths = map[string][]string{
	"narrow and dark": {"--window-size=390,844", "--blink-settings=preferredColorScheme=0"},
	"wide and light":  {"--window-size=1280,900", "--blink-settings=preferredColorScheme=1"},
}

// TestThePageOpensInABrowser as it is, with its policy, without a complaint.
func TestThePageOpensInABrowser(t *testing.T) {
	s := start(t, &parrot{says: "x", wait: ready}, plainTemplate, nil)
	p := browser.Open(t, s.url, 2*time.Second)
	if p.Console != nil || !strings.Contains(p.DOM, "<option>m</option><option>base</option>") {
		t.Errorf("the console has %q\n%s", p.Console, p.DOM)
	}
}

// TestThePageTalks: what is asked is answered there, mistakes are told, and nothing is wider than the window.
func TestThePageTalks(t *testing.T) {
	s := start(t, &parrot{says: "It rains & " + strings.Repeat("pours", 50), wait: ready}, plainTemplate, nil)
	// The browser's clock does not wait for answers that come in pieces, but it does for /moment.
	const script = `<script>
const ask = what => { text.value = what; $('ask').requestSubmit(); };
const when = (ready, then) => {
	if (ready()) return then();
	const moment = new XMLHttpRequest();
	moment.open('GET', '/moment', false);
	moment.send();
	setTimeout(when, 100, ready, then);
};
when(() => $('model').value, () => {
	ask('<b>Rain?</b>');
	when(() => !running, () => {
		$('model').value = 'base';
		ask('Again?');
		when(() => !running, () => document.title = document.documentElement.scrollWidth - innerWidth);
	});
});
</script>`
	// The policy would not let this script run.
	mux := http.NewServeMux()
	mux.Handle("/v1/", s)
	mux.HandleFunc("/moment", func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) })
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		page := httptest.NewRecorder()
		s.ServeHTTP(page, r)
		w.Write([]byte(page.Body.String() + script))
	})
	url := newListener(t, mux)
	for name, flags := range widths {
		t.Run(name, func(t *testing.T) {
			p := browser.Open(t, url, 5*time.Minute, flags...)
			articles := regexp.MustCompile(`(?s)<article class="(\w+)">(.*?)</article>`).FindAllStringSubmatch(p.DOM, -1)
			want := [][2]string{{"user", "&lt;b&gt;Rain?&lt;/b&gt;"}, {"assistant", "It rains &amp; pours"},
				{"user", "Again?"}, {"error", "has no chat template"}}
			if len(articles) != len(want) {
				t.Fatalf("%q\n%q", articles, p.Console)
			}
			for i, a := range articles {
				if a[1] != want[i][0] || !strings.Contains(a[2], want[i][1]) {
					t.Errorf("%q, want %q", a, want[i])
				}
			}
			if !strings.Contains(p.DOM, "<small>m: 261 tokens in ") {
				t.Error("an answer does not say whose it is")
			}
			if !strings.Contains(p.DOM, "<title>0</title>") {
				t.Error("something is wider than the window: the page's title says by how much")
			}
		})
	}
}
