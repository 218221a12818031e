package trackio_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/trackio"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestRowsAndColumns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trackio")
	step := func(n int, loss float64) *journal.Step {
		return &journal.Step{Time: noon, Step: n, Loss: loss, LR: 1e-5, GradNorm: 2, Tokens: 8, Seconds: 2}
	}
	preference := step(3, 0.25)
	preference.Metrics = journal.Metrics{"rewards/chosen": 1, "rewards/margins": 2}
	earlier, start := &journal.Run{}, &journal.Start{Time: noon}
	for _, e := range []journal.Event{start, &journal.Eval{Time: noon, Loss: 9}, step(1, 4), step(2, 3)} {
		if err := earlier.Record(e); err != nil {
			t.Fatal(err)
		}
	}
	w, err := trackio.New(dir, "run")
	if err != nil {
		t.Fatal(err)
	}
	w.Resume(earlier)
	for _, e := range []journal.Event{&journal.Start{Time: noon, Resumed: 1}, step(2, math.Inf(1)),
		&journal.Eval{Time: noon.Add(time.Second), Step: 2, Loss: 7}, preference} {
		if err := w.Record(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "run.csv"))
	if err != nil {
		t.Fatal(err)
	}
	const at = ",2026-01-02T12:00:00Z,"
	want := "step,timestamp,eval/loss,train/loss,train/lr,train/norm,train/toks,train/rewa,train/rew2\n" +
		"0" + at + "9,,,,,,\n" +
		"1" + at + ",4,1e-05,2,4,,\n" +
		"2,2026-01-02T12:00:01Z,7,,1e-05,2,4,,\n" +
		"3" + at + ",0.25,1e-05,2,4,1,2\n"
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("the file (-want +got):\n%s", diff)
	}
	// What import_csv makes of the names: ten of their letters, digits and slashes, each once.
	seen := map[string]bool{}
	for name := range strings.SplitSeq(strings.SplitN(string(text), "\n", 2)[0], ",") {
		cut := regexp.MustCompile(`[^a-zA-Z0-9/]`).ReplaceAllString(name, "")
		if cut = cut[:min(len(cut), 10)]; cut != name || seen[cut] {
			t.Errorf("the column %s becomes %s", name, cut)
		}
		seen[cut] = true
	}
}
