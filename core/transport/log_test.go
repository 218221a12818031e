package transport

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestGoPluginsLoggerWritesDebugRecords(t *testing.T) {
	var out bytes.Buffer
	h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
	a := newLogger(slog.New(h)).Named("one").With("pid", 7).Named("two")
	a.Error("it fell", "height", 3)
	for _, want := range []string{"level=DEBUG", `msg="it fell"`, "pid=7", "height=3", "plugin_level=error"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, &out)
		}
	}
	out.Reset()
	a.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}).Print("plain")
	if !strings.Contains(out.String(), "msg=plain") {
		t.Errorf("standard logger: %s", &out)
	}
}

func TestLastWordsKeepTheCause(t *testing.T) {
	cases := map[string]struct{ wrote, want string }{
		"nothing": {"", ""},
		"lines":   {"one\ntwo\n", "one; two"},
		"no thread": {"starting\nruntime/cgo: pthread_create failed: " +
			"Resource temporarily unavailable\nSIGABRT: abort\nPC=0x1\n",
			"runtime/cgo: pthread_create failed: Resource temporarily unavailable; SIGABRT: abort; PC=0x1"},
		"no thread, without libc": {"starting\nruntime: failed to create new OS thread (have 2 already; errno=11)\n" +
			"runtime: may need to increase max user processes (ulimit -u)\nfatal error: newosproc\n\nruntime stack:\n",
			"runtime: failed to create new OS thread (have 2 already; errno=11); " +
				"runtime: may need to increase max user processes (ulimit -u); fatal error: newosproc"},
		"a panic": {"starting\npanic: no\n\ngoroutine 1 [running]:\nmain.main()\n" + strings.Repeat("frame\n", 500),
			"panic: no; goroutine 1 [running]:; main.main()"},
		"too much": {strings.Repeat("x", 3*maxLastWords) + "\nend\n", strings.Repeat("x", maxLastWords-5) + "; end"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var w lastWords
			if _, err := io.WriteString(&w, tc.wrote); err != nil {
				t.Fatal(err)
			}
			if got := w.String(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
