package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/testdata"
)

// bin is the folder that the commands of all pages install programs into: what is there already is not linked again.
var bin string

func TestMain(m *testing.M) {
	var err error
	if bin, err = os.MkdirTemp("", "tune-docs-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(bin)
	os.Exit(code)
}

// TestWritingAKernel does what docs/writing-a-kernel.md says, as its reader would: every
// command of the page, in order, in an empty folder, with a home of its own and the Go
// toolchain. See step for what is a command, and replay for what is compared.
func TestWritingAKernel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("the page is written for a shell and the config folder of Linux, this is %s", runtime.GOOS)
	}
	text, err := os.ReadFile("writing-a-kernel.md")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := stepsOf(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) == 0 {
		t.Fatal("the page has no commands")
	}
	replay(t, steps)
}

// TestRecipes does what each of docs/recipes says, with a published small model for its MODEL, and the first rows of
// published data for its chat.json and pairs.json: commands read all that there is, and evaluate a share of it.
func TestRecipes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the pages are written for a shell")
	}
	model := testdata.Shared(t, "data", "models", "stories260K")
	sets := testdata.Shared(t, "data", "datasets", "llamafactory")
	pages, err := filepath.Glob(filepath.Join("recipes", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d recipes, %v", len(pages), err)
	}
	home := t.TempDir()
	env := append(environment(t, home), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	if out, _, err := shell(t, testdata.Root(t), home, env, "go install ./cmd/tune"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			steps, err := stepsOf(string(text))
			if err != nil || len(steps) == 0 {
				t.Fatalf("%d commands, %v", len(steps), err)
			}
			dir := t.TempDir()
			if err := os.Symlink(model, filepath.Join(dir, "MODEL")); err != nil {
				t.Fatal(err)
			}
			firstOf(t, filepath.Join(sets, "alpaca_en_demo.json"), filepath.Join(dir, "chat.json"))
			firstOf(t, filepath.Join(sets, "dpo_en_demo.json"), filepath.Join(dir, "pairs.json"))
			replayIn(t, steps, home, dir, env)
		})
	}
}

// firstOf writes the first thirty elements of a JSON array.
func firstOf(t *testing.T, from, to string) {
	t.Helper()
	var all []json.RawMessage
	text, err := os.ReadFile(from)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err == nil {
		text, err = json.Marshal(all[:30])
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// missing returns the first of the programs that is not there, "" if all are.
func missing(programs ...string) string {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return p
		}
	}
	return ""
}

// step is one fenced block of a page, by the words after the fence:
//
//	sh            commands, run in the folder where those before ended up
//	sh checkout   commands, run in the checkout of tune
//	sh c          commands that need a C compiler and make, left out where these are not
//	sh mpi        commands that need an MPI, likewise
//	go FILE       the new contents of a file
//	go            a quotation from a file of that folder
//	text          after commands: what they print
//
// Blocks with other words, or none, are not run.
type step struct {
	line     int // of the page
	kind     string
	file     string
	text     string
	shows    bool
	expected string
}

// fenced is a fenced block: its words and its text.
var fenced = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func stepsOf(page string) ([]step, error) {
	var steps []step
	for _, m := range fenced.FindAllStringSubmatchIndex(page, -1) {
		line := 1 + strings.Count(page[:m[0]], "\n")
		words, text := strings.Fields(page[m[2]:m[3]]), page[m[4]:m[5]]
		switch kind := strings.Join(words, " "); {
		case kind == "sh" || kind == "sh checkout" || needed[kind].programs != nil:
			steps = append(steps, step{line: line, kind: kind, text: text})
		case len(words) == 2 && words[0] == "go":
			steps = append(steps, step{line: line, kind: "file", file: words[1], text: text})
		case kind == "go":
			steps = append(steps, step{line: line, kind: "quotation", text: text})
		case kind == "text":
			if len(steps) == 0 || !strings.HasPrefix(steps[len(steps)-1].kind, "sh") || steps[len(steps)-1].shows {
				return nil, fmt.Errorf("line %d: this output belongs to no command", line)
			}
			steps[len(steps)-1].shows, steps[len(steps)-1].expected = true, text
		}
	}
	return steps, nil
}

// replay runs the steps. Commands must succeed, and print what the page shows, up to
// figures: see sameOutput.
func replay(t *testing.T, steps []step) {
	home := t.TempDir()
	replayIn(t, steps, home, t.TempDir(), environment(t, home))
}

// needed are the programs that commands of a kind need, and where they come from.
var needed = map[string]struct {
	programs []string
	from     string
}{
	"sh c":   {[]string{"cc", "make"}, "Debian's gcc and make"},
	"sh mpi": {[]string{"mpirun"}, "Debian's openmpi-bin"},
}

// replayIn runs the steps in a folder.
func replayIn(t *testing.T, steps []step, home, dir string, env []string) {
	t.Helper()
	for _, s := range steps {
		var err error
		switch s.kind {
		case "file":
			err = os.WriteFile(filepath.Join(dir, s.file), []byte(s.text), 0o644)
		case "quotation":
			err = quoted(dir, s.text)
		case "sh":
			dir, err = s.run(t, dir, home, env)
		case "sh c", "sh mpi":
			need := needed[s.kind]
			if missing := missing(need.programs...); missing != "" {
				t.Logf("line %d is left out: there is no %s; install one, such as %s", s.line, missing, need.from)
				continue
			}
			dir, err = s.run(t, dir, home, env)
		case "sh checkout":
			_, err = s.run(t, testdata.Root(t), home, env)
		}
		if err != nil {
			t.Fatalf("line %d: %v", s.line, err)
		}
	}
}

// run runs the commands of a step and compares what they print. It returns the folder
// where they end.
func (s step) run(t *testing.T, dir, home string, env []string) (string, error) {
	t.Helper()
	start := time.Now()
	out, ended, err := shell(t, dir, home, env, s.text)
	t.Logf("line %d took %s", s.line, time.Since(start).Round(time.Millisecond))
	if err != nil {
		return ended, fmt.Errorf("%w\n%s%s", err, s.text, out)
	}
	if s.shows && !sameOutput(s.expected, out) {
		t.Errorf("line %d:\n%s\nthe page shows\n%s\nwhich is not what was printed:\n%s", s.line, s.text, s.expected, out)
	}
	return ended, nil
}

// quoted reports a text that none of the Go files of a folder has.
func quoted(dir, text string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		if b, err := os.ReadFile(name); err != nil || strings.Contains(string(b), text) {
			return err
		}
	}
	return fmt.Errorf("no Go file has the lines\n%s", text)
}

// shell runs commands and returns what they print and the folder that they end in.
func shell(t *testing.T, dir, home string, env []string, commands string) (out, ended string, err error) {
	t.Helper()
	where := filepath.Join(home, ".pwd")
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-u", "-c", commands+"\npwd >"+where)
	cmd.Dir, cmd.Env = dir, append(slices.Clip(env), "PWD="+dir)
	b, err := cmd.CombinedOutput()
	if err != nil {
		return string(b), dir, err
	}
	pwd, err := os.ReadFile(where)
	return string(b), strings.TrimSpace(string(pwd)), err
}

// environment is that of somebody who has Go and nothing of tune: programs are installed
// into a folder on the path, and the caches of Go are the real ones.
func environment(t *testing.T, home string) []string {
	t.Helper()
	env := []string{"HOME=" + home, "PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH"), "GOBIN=" + bin, "GOWORK=off"}
	flags := ""
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN", "CGO_ENABLED",
		"GOFLAGS"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatalf("go env %s: %v", name, err)
		}
		flags = strings.TrimSpace(string(value))
		env = append(env, name+"="+flags)
	}
	if trim := testdata.TrimPath(); trim != "" {
		// A reader trims nothing, and his program knows where it was compiled, which is noted in its main package. That
		// package takes the checkout's folder for itself; naming it keeps Go from taking what it compiled in another one.
		root := testdata.Root(t)
		flags = fmt.Sprintf("%s '-gcflags=-trimpath=%s=>%[2]s'", trim, root)
	}
	// No command of a page needs what debuggers do, and benchmarks only have to print something, as often as profiles
	// need that find where the time goes.
	env = append(env, "GOFLAGS="+flags+" '-ldflags=-s -w' -benchtime=300x")
	for _, name := range []string{"TMPDIR", "GOGC"} { // which a reader may have set as well
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// sameOutput compares word by word, where any two words with a digit are alike, except the
// names of benchmarks, and a line of three dots stands for any words. Where lines break
// does not count.
func sameOutput(want, got string) bool {
	return sameWords(normalized(want), normalized(got))
}

func sameWords(want, got []string) bool {
	for i, word := range want {
		if word != anyWords {
			if i >= len(got) || got[i] != word {
				return false
			}
			continue
		}
		for skip := i; skip <= len(got); skip++ {
			if sameWords(want[i+1:], got[skip:]) {
				return true
			}
		}
		return false
	}
	return len(want) == len(got)
}

// anyWords is what normalized makes of a line of three dots; no program prints it.
const anyWords = "\x00"

// benchmark is the name of one in Go's output; how many cores it ran on, unless on one,
// follows.
var benchmark = regexp.MustCompile(`^(Benchmark.*?)(-\d+)?$`)

// stillAtWork is the line that verification prints each time it has been silent for some seconds, which is up to the machine.
var stillAtWork = regexp.MustCompile(`^tune: verifying .*, case \d+ of \d+$`)

// normalized returns the words of a text with their figures replaced.
func normalized(text string) []string {
	var words []string
	for line := range strings.Lines(text) {
		if stillAtWork.MatchString(strings.TrimSpace(line)) {
			continue
		}
		if strings.TrimSpace(line) == "..." {
			words = append(words, anyWords)
			continue
		}
		for _, w := range strings.Fields(line) {
			if m := benchmark.FindStringSubmatch(w); m != nil {
				w = m[1]
			} else if strings.ContainsAny(w, "0123456789") {
				w = "#"
			}
			words = append(words, w)
		}
	}
	return words
}

func TestSameOutput(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		same      bool
	}{
		{"done: 20 steps in 500ms\n", "done: 7  steps in 1.2s", true},
		{"done: 20 steps", "done: no steps", false},
		{"tune: verifying a: rope\nok", "tune: verifying a: rope\ntune: verifying a: rope: one token, case 7 of 90\nok", true},
		{"BenchmarkX/a2-8 10 ns/op", "BenchmarkX/a2  7 ns/op", true},
		{"BenchmarkX/a2-8 10 ns/op", "BenchmarkX/b2-8 10 ns/op", false},
		{"a\n...\nb\n", "a\nx\ny\nb\n", true},
		{"a\n...\nb\n", "a\nb\n", true},
		{"...\nb\nc\n", "a\nb\nd\nb\nc\n", true},
		{"a\n...\n", "b\na\n", false},
		{"a\n", "a\nb\n", false},
		{"a\nb\n", "a\n", false},
		{"a b\n  c\n", "a\nb c\n", true},
		{"a\n...\nb\n...\nc\n", "a\nb\nb\nx\nc\n", true},
		{"", "\n\n", true},
		{"", "a", false},
	} {
		if sameOutput(tt.want, tt.got) != tt.same {
			t.Errorf("%q and %q: the same is %v, want %v", tt.want, tt.got, !tt.same, tt.same)
		}
	}
}

func TestStepsOfAPage(t *testing.T) {
	page := "# Title\n\n```sh checkout\ngo install\n```\n\n```sh\ncd a\n```\n\n```text\nx\n```\n\n```go b.go\npackage b\n```\n\n```go\npackage b\n```\n\n```yaml\nnot: a step\n```\n"
	want := []step{
		{line: 3, kind: "sh checkout", text: "go install\n"},
		{line: 7, kind: "sh", text: "cd a\n", shows: true, expected: "x\n"},
		{line: 15, kind: "file", file: "b.go", text: "package b\n"},
		{line: 19, kind: "quotation", text: "package b\n"},
	}
	if got, err := stepsOf(page); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := stepsOf("```text\nof what?\n```\n"); err == nil {
		t.Error("output without a command is taken")
	}
}

// TestAFailingCommandFails: a replay that goes on after an error proves nothing.
func TestAFailingCommandFails(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh on Windows")
	}
	dir, env := t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}
	var exit *exec.ExitError
	if _, _, err := shell(t, dir, dir, env, "false\ntrue\n"); !errors.As(err, &exit) {
		t.Errorf("error %v, want that of the first command", err)
	}
	out, ended, err := shell(t, dir, dir, env, "mkdir b\ncd b\necho out\necho err >&2\n")
	if err != nil || out != "out\nerr\n" || filepath.Base(ended) != "b" {
		t.Errorf("printed %q, ended in %s, error %v", out, ended, err)
	}
}
