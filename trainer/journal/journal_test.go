package journal

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 123456789, time.UTC)

func start(resumed int) *Start {
	return &Start{Time: noon, Version: Version, Resumed: resumed, Model: "llama", Steps: 9,
		Config: json.RawMessage(`{"lr":0.001}`),
		Sites:  []Site{{Path: "layers.0.mlp", Op: "swiglu", Kernel: "k"}}, Plugins: []Plugin{{Name: "k"}}}
}

func step(n int, loss float64) *Step {
	return &Step{Time: noon, Step: n, Loss: loss, LR: 1e-4, GradNorm: 1.5, Tokens: 64, Seconds: 0.25, Memory: 1 << 20}
}

// write records events in a journal, each opening being a process.
func write(t testing.TB, path string, processes ...[]Event) {
	t.Helper()
	for _, events := range processes {
		w, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := w.Record(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, path string) *Run {
	t.Helper()
	r, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func losses(r *Run) []float64 {
	var all []float64
	for _, s := range r.Steps {
		all = append(all, s.Loss)
	}
	return all
}

func TestEveryEventComesBack(t *testing.T) {
	dir := t.TempDir()
	hostile := "</script>\n\"\\\u2028"
	events := []Event{start(0), step(1, math.Pi),
		&Step{Time: noon, Step: 2, Loss: 1e-300, LR: 5e-324, GradNorm: math.MaxFloat64},
		&Step{Time: noon, Step: 3, Loss: 1, Metrics: Metrics{"rewards/chosen": 0.5, "kl": 1e-9}},
		&Eval{Time: noon, Step: 2, Loss: 3, Targets: 4},
		&Incident{Time: noon, Step: 2, Kernel: "k", Op: "rope", Deaths: 1, Repeats: 1, Error: hostile},
		&Checkpoint{Time: noon, Step: 2, Path: hostile}, &Warning{Time: noon, Step: 2, Text: hostile},
		&Kernels{Time: noon, Step: 2, Calls: []Call{{Op: "rope", Kernel: "k", Pass: "forward", Calls: 3, Seconds: 0.5}}},
		&End{Time: noon.Add(time.Second), Step: 2, Interrupted: true, Error: hostile}}
	write(t, filepath.Join(dir, File), events)
	want := &Run{}
	for _, e := range events {
		if err := want.Record(e); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, dir)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Run{})); diff != "" {
		t.Errorf("what is read differs from what was recorded (-want +got):\n%s", diff)
	}
	if len(got.Steps) != 3 || got.End.Error != hostile || got.Incidents[0].Deaths != 1 {
		t.Errorf("events are missing: %+v", got)
	}
}

func TestWhatIsDoneAgainReplacesWhatWasDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	times := func(seconds float64) *Kernels {
		return &Kernels{Time: noon, Calls: []Call{{Op: "rope", Pass: "forward", Calls: 2, Seconds: seconds}}}
	}
	write(t, path,
		[]Event{start(0), &Eval{Step: 0, Loss: 9}, step(1, 1), step(2, 2), &Eval{Step: 2, Loss: 8}, &Checkpoint{Step: 2},
			step(3, 3), step(4, 4), times(1), times(2),
			&Incident{Step: 4, Deaths: 1}, &Eval{Step: 4, Loss: 7}, &Checkpoint{Step: 4}, &End{Step: 4, Interrupted: true}},
		[]Event{start(2), step(3, 33), times(10)})
	r := read(t, path)
	if diff := cmp.Diff([]float64{1, 2, 33}, losses(r)); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	if len(r.Evals) != 2 || len(r.Checkpoints) != 1 || len(r.Incidents) != 1 || r.Sessions != 2 || r.End != nil {
		t.Errorf("%d evaluations, %d checkpoints, %d incidents, %d sessions, end %v", len(r.Evals), len(r.Checkpoints),
			len(r.Incidents), r.Sessions, r.End)
	}
	if want := []Call{{Op: "rope", Pass: "forward", Calls: 4, Seconds: 12}}; !cmp.Equal(want, r.Calls) {
		t.Errorf("times of kernels are %v, want %v", r.Calls, want)
	}
	write(t, path, []Event{start(0), step(1, 111)})
	if r := read(t, path); len(r.Steps) != 1 || r.Sessions != 1 || len(r.Calls) != 0 {
		t.Errorf("a run from the beginning still has %d steps, %d sessions, %v", len(r.Steps), r.Sessions, r.Calls)
	}
}

// TestTornLine cuts a journal at every byte, as a kill or a full disk may, and goes on.
func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, File)
	write(t, path, []Event{start(0), step(1, 1), step(2, 2)})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := strings.Index(string(whole), "\n") + 1
	for cut := first; cut <= len(whole); cut++ {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(whole[:cut]), "\n")
		if r := read(t, path); len(r.Steps) != lines-1 {
			t.Fatalf("cut at %d: %d steps of %d whole lines", cut, len(r.Steps), lines-1)
		}
		write(t, path, []Event{step(3, 3)})
		if r := read(t, path); len(r.Steps) != lines {
			t.Fatalf("cut at %d: %d steps after one more, want %d", cut, len(r.Steps), lines)
		}
	}
	if err := os.WriteFile(path, whole[:first/2], 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, path, []Event{start(0)})
	read(t, path)
}

func TestALongTornLineIsDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	write(t, path, []Event{start(0)})
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"event":"warning","text":"` + strings.Repeat("x", 20_000)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	write(t, path, []Event{step(1, 1)})
	if r := read(t, path); len(r.Steps) != 1 || len(r.Warnings) != 0 {
		t.Errorf("%d steps and %d warnings, want 1 and 0", len(r.Steps), len(r.Warnings))
	}
}

func TestErrorsNameTheFileTheLineAndTheRemedy(t *testing.T) {
	begin := `{"event":"start","version":1,"config":{}}` + "\n"
	for name, tt := range map[string]struct{ text, want string }{
		"empty":              {"", "run.jsonl:1: no journal: the file is empty"},
		"nothing but a tear": {`{"event":"sta`, "run.jsonl:1: no journal: the file is empty"},
		"garbage": {begin + "garbage\n", "run.jsonl:2: not a line of a journal: no JSON at column 1: " +
			"unexpected 'g'; remove the line to read the rest"},
		"torn in the middle": {begin + `{"event":"st` + "\n" + begin, "run.jsonl:2: not a line of a journal"},
		"a wrong type": {begin + `{"event":"step","step":"one"}` + "\n",
			"run.jsonl:2: step: field step: want a whole number, have a string; remove"},
		"too large a number": {begin + `{"event":"step","loss":1e999}` + "\n",
			"run.jsonl:2: step: field loss: want a number of 64 bits, have 1e999; remove"},
		"another file": {"{\n  \"a\": 1\n}\n", "run.jsonl:1: this is no journal of a run: the JSON ends"},
		"without a start": {`{"event":"step","step":1}` + "\n",
			"run.jsonl:1: step before start: the beginning of the journal is missing"},
		"of the future":   {`{"event":"start","version":2}` + "\n", "run.jsonl:1: version is 2, this program reads 1"},
		"a line too long": {begin + strings.Repeat("x", longest+1) + "\n", "run.jsonl:2: the line is longer than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, File), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.HasPrefix(err.Error(), dir) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "name the folder of a training run") {
		t.Errorf("a folder without a journal: %v", err)
	}
}

func TestUnknownEventsAreLeftOut(t *testing.T) {
	r, err := parse(strings.NewReader(`{"event":"start","version":1,"config":{},"more":true}` + "\n\n" +
		`{"event":"weather","step":"warm"}` + "\n"))
	if err != nil || r.Start == nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestASnapshotDoesNotChange(t *testing.T) {
	r := &Run{}
	for _, e := range []Event{start(0), step(1, 1), step(2, 2), step(3, 3)} {
		r.Record(e)
	}
	s := r.Snapshot()
	for _, e := range []Event{step(4, 4), start(1), step(2, 22), step(3, 33), &End{}} {
		r.Record(e)
	}
	if diff := cmp.Diff([]float64{1, 2, 3}, losses(s)); diff != "" || s.End != nil || s.Start.Resumed != 0 {
		t.Errorf("the snapshot has changed:\n%s", diff)
	}
}

// TestAStepTakesNoMemory: the trainer's heap stays steady, see its own test.
func TestAStepTakesNoMemory(t *testing.T) {
	w, err := Open(filepath.Join(t.TempDir(), File))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := step(1, 1.25)
	if err := w.Record(s); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		s.Step++
		s.Time = time.Now()
		if err := w.Record(s); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a step allocates %g times", n)
	}
}

func BenchmarkRecordStep(b *testing.B) {
	w, err := Open(filepath.Join(b.TempDir(), File))
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	s := step(1, 1.25)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Record(s); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParse: whatever is read can be written and read again.
func FuzzParse(f *testing.F) {
	var text []byte
	for _, e := range []Event{start(0), step(1, 2), &Eval{Step: 1}, &Incident{Deaths: 1},
		&Kernels{Calls: []Call{{Op: "rope"}}}, &End{}, start(1)} {
		text, _ = appendLine(text, e)
	}
	f.Add(string(text))
	f.Add(`{"event":"start","version":1}` + "\n" + `{"event":"step","step":-1}` + "\n" +
		`{"event":"start","version":1,"resumed":-5}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		last := math.MinInt
		for _, s := range r.Steps {
			if s.Step <= last {
				t.Fatalf("step %d after step %d", s.Step, last)
			}
			last = s.Step
			line, err := appendLine(nil, &s)
			if err != nil {
				t.Fatal(err)
			}
			var again Step
			if err := json.Unmarshal(line, &again); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if again.Loss != s.Loss || again.Step != s.Step || !again.Time.Equal(s.Time) {
				t.Fatalf("%+v came back as %+v", s, again)
			}
		}
	})
}
