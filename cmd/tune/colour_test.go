package main

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/progress"
)

func TestColoursAreForTerminalsOnly(t *testing.T) {
	const plan = "N  PATH     FORWARD\n2  a.*.mlp  plain -> k\n    1.7x: 1 ms\n1  b        plain rope (slower)\n1 of " +
		"2 sites use a fused kernel\n"
	if got := palette(false).actions(plan); got != plan {
		t.Errorf("without colours:\n%q", got)
	}
	const want = "\x1b[1mN  PATH     FORWARD\x1b[0m\n2  a.*.mlp  plain -> \x1b[32mk\x1b[0m\n\x1b[2m    1.7x: 1 " +
		"ms\x1b[0m\n1  b        plain rope (slower)\n1 of 2 sites use a fused kernel\n"
	if got := palette(true).actions(plan); got != want {
		t.Errorf("with colours:\n%q, want\n%q", got, want)
	}
	for _, tt := range []struct {
		s    support
		want string
	}{
		{support{OK: true}, ": \x1b[32myes\x1b[0m"},
		{support{Reason: "not at all"}, ": \x1b[31mno\x1b[0m, not at all"},
	} {
		if got := tt.s.line(true); !strings.HasSuffix(got, tt.want) {
			t.Errorf("got %q, want %q at its end", got, tt.want)
		}
		if got := tt.s.line(false); strings.Contains(got, "\x1b") {
			t.Errorf("without colours: %q", got)
		}
	}
}

func TestLinesFitATerminal(t *testing.T) {
	long := strings.Repeat("word ", 40)
	for line := range strings.Lines(progress.Wrapped("  "+long, "    ")) {
		if n := len(strings.TrimRight(line, "\n")); n > progress.Columns || n < 10 {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	unbroken := strings.Repeat("x", 100)
	narrow, wide := strings.Repeat("é", 79), strings.Repeat("語", 39)
	for in, want := range map[string]string{"short": "short", unbroken: unbroken, "  " + unbroken + " y": "  " +
		unbroken + "\n    y", narrow + " x": narrow + "\n    x", narrow: narrow, wide + " x": wide + " x",
		wide + " 🙂": wide + "\n    🙂"} {
		if got := progress.Wrapped(in, "    "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTablesAreAlignedWhateverIsInThem(t *testing.T) {
	var out strings.Builder
	err := printAligned(&out, [][]string{{"run", "loss", ""}, {"日本語-🙂", "1", "failed"}, {"e\u0301", "2", ""}})
	if want := "run        loss\n日本語-🙂  1     failed\ne\u0301          2\n"; err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, want)
	}
}
