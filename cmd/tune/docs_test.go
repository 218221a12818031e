package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/internal/testdata"
)

func TestReferenceIsUpToDate(t *testing.T) {
	got, err := os.ReadFile(filepath.Join(testdata.Root(t), "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := reference((&app{}).commands())
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/cli.md is not what \"go generate ./cmd/tune\" writes (-want +got):\n%s", diff)
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out}
	commands := a.commands()
	a.printOverview(commands)
	for _, c := range commands {
		a.printHelp(c)
		if c.Short == "" || c.Long == "" || c.Run == nil {
			t.Errorf("command %s lacks a description or a function", c.Name)
		}
		c.Flags.VisitAll(func(f *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(f); kind != strings.ToUpper(kind) && kind != "GFLOP/s" {
				t.Errorf("tune %s: the usage of --%s does not name its value, which help calls %s", c.Name, f.Name, kind)
			}
		})
	}
	for line := range strings.Lines(out.String()) {
		if n := len(strings.TrimRight(line, "\n")); n > columns {
			t.Errorf("a line of help has %d columns, want at most %d: %s", n, columns, line)
		}
	}
}

func TestDidYouMeanSuggestsOnlyWhatIsNear(t *testing.T) {
	for _, tt := range []struct {
		typed, want string
		known       []string
	}{
		{"trian", "train", []string{"parity", "train", "bench"}},
		{"lr-schedule", "schedule", []string{"lr", "schedule", "seed"}},
		{"step", "steps", []string{"seed", "seq", "steps"}},
		{"cosin", "cosine", []string{"linear", "cosine"}},
		{"eval", "eval-data", []string{"epochs", "eval-data"}},
		{"m", "model", []string{"data", "model"}},
		{"yaml", "", []string{"text", "json"}},
		{"serve", "", []string{"parity", "train", "version", "bench"}},
		{"", "", []string{"train"}},
	} {
		want := ""
		if tt.want != "" {
			want = "; did you mean " + tt.want + "?"
		}
		if got := didYouMean(tt.typed, tt.known, strings.Clone); got != want {
			t.Errorf("%q: got %q, want %q", tt.typed, got, want)
		}
	}
}
