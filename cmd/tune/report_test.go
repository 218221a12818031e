package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/browser"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/journal"
)

// TestARunInABrowser trains with every kernel, opens the page while the run goes on and
// the report after it, and looks for what the run itself has said.
func TestARunInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	t.Parallel()
	dir, plugins := modelAndText(t, "qwen3_moe"), pluginDir(t)
	run := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "tune", args...)
		cmd.Dir, cmd.Env = dir, environment(t)
		return cmd
	}
	train := run("--kernels", "all", "--plugin-dir", plugins, "--model", "m", "--data", "text.txt", "--seq", "16",
		"--steps", "1000000",
		"--schedule", "constant", "--out", "o", "--log", "json", "--serve", "0")
	notes, err := train.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	steps, err := train.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := train.Start(); err != nil {
		t.Fatal(err)
	}
	defer train.Process.Kill()
	url := watched(t, notes)
	var last trainer.Step
	lines := bufio.NewScanner(steps)
	for last.Step < 3 && lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody reads on meanwhile, but a run must not wait for that long.
	rest := make(chan string)
	go func() {
		line := lines.Text()
		for lines.Scan() {
			line = lines.Text()
		}
		rest <- line
	}()
	live := browser.Open(t, url, 2*time.Second)
	check(t, "live", live, "Running: step ", "npu_<wbr>fused_<wbr>moe")
	if err := train.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(<-rest), &last); err != nil {
		t.Fatal(err)
	}
	if err := train.Wait(); err != nil {
		t.Fatal(err)
	}
	if out, err := run("report", "o").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check(t, "report", browser.Open(t, "file://"+filepath.Join(dir, "o", "report.html"), time.Second),
		"npu_<wbr>fused_<wbr>moe",
		fmt.Sprintf("Interrupted after step %d of 1000000.", last.Step), fmt.Sprintf("%.4f at last", last.Loss))
}

// watched returns the address that a run tells, and reads on after it.
func watched(t *testing.T, notes io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(notes)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "the run can be watched at "); ok {
			go io.Copy(io.Discard, notes)
			return url
		}
	}
	t.Fatal("the run does not tell where it can be watched")
	return ""
}

func check(t *testing.T, name string, p browser.Page, wants ...string) {
	t.Helper()
	if p.Console != nil {
		t.Errorf("%s: the console has %q", name, p.Console)
	}
	if !regexp.MustCompile(`class="curve"[^>]* d="M[0-9.]+ [0-9.]+L`).MatchString(p.DOM) {
		t.Errorf("%s: nothing is drawn", name)
	}
	for _, want := range wants {
		if !strings.Contains(p.DOM, want) {
			t.Errorf("%s: the document lacks %q", name, want)
		}
	}
}

// TestTheBestLossOfARunIsOneAfterAStep: a run that has made the model worse is not listed with the loss it began with.
func TestTheBestLossOfARunIsOneAfterAStep(t *testing.T) {
	before := journal.Eval{Loss: 1}
	if e := entryOf("r", &journal.Run{Start: &journal.Start{}, Evals: []journal.Eval{before}}); e.Best != nil {
		t.Errorf("before the first step the best loss is %v, want none", *e.Best)
	}
	all := []journal.Eval{before, {Step: 3, Loss: 2}, {Step: 6, Loss: 3}}
	if e := entryOf("r", &journal.Run{Start: &journal.Start{}, Evals: all}); e.Best == nil || *e.Best != 2 {
		t.Errorf("%+v: the best loss is not 2, that of step 3", e)
	}
}

// TestRunsAreFoundBehindALink: a folder that is named may be one.
func TestRunsAreFoundBehindALink(t *testing.T) {
	dir := t.TempDir()
	run, link := filepath.Join(dir, "models", "run"), filepath.Join(dir, "link")
	err := os.MkdirAll(run, 0o777)
	if err == nil {
		err = os.WriteFile(filepath.Join(run, journal.File), []byte("no journal\n"), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "models"), link); err != nil {
		t.Skip(err)
	}
	var found []runEntry
	if err := findRuns(t.Context(), link, &found); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Run != filepath.Join(link, "run") {
		t.Errorf("found %+v", found)
	}
	for _, none := range []string{"", filepath.Join(run, journal.File)} {
		if err := findRuns(t.Context(), none, &found); err == nil {
			t.Errorf("%q is a folder", none)
		}
	}
}
