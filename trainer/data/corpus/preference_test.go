package corpus

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAPromptIsOnceInARowWhereItMayBe has two pairs, whose better answers have 22 and 24 tokens with the prompt of 19,
// and the others one more.
func TestAPromptIsOnceInARowWhereItMayBe(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": `{"prompt": "ppp", "chosen": "ab", "rejected": "cde"}
{"prompt": "qqq", "chosen": "abcd", "rejected": "efghi"}
`}), "a.jsonl")
	for name, c := range map[string]struct {
		config   Config
		forks    func() Forks
		shared   int64
		repeated int
		seq      int
	}{
		"nobody says where":   {Config{}, nil, 0, 0, 56},
		"everywhere":          {Config{}, func() Forks { return Forks{Longest: math.MaxInt} }, 36, 0, 32},
		"in short ones":       {Config{}, func() Forks { return Forks{22, "they are long"} }, 18, 1, 56},
		"nowhere":             {Config{}, func() Forks { return Forks{0, "it is so"} }, 0, 2, 56},
		"everywhere, but not": {Config{RepeatPrompt: true}, func() Forks { return Forks{Longest: math.MaxInt} }, 0, 0, 56},
	} {
		t.Run(name, func(t *testing.T) {
			m := model(64)
			m.Kind, m.Forks = Pairs, c.forks
			none := 0.0
			c.config.Paths, c.config.NoPacking, c.config.EvalSize = []string{path}, true, &none
			corpus := load(t, c.config, m)
			r := corpus.Report
			if r.Shared != c.shared || r.Repeated != c.repeated || (r.RepeatedWhy != "") != (c.repeated > 0) {
				t.Errorf("report %+v", r)
			}
			if corpus.Seq != c.seq {
				t.Errorf("rows of %d tokens, want %d", corpus.Seq, c.seq)
			}
			if r.Tokens != 22+23+24+25 || r.Longest != 50 || r.Truncated != 0 || corpus.Train.Len() != 2 {
				t.Errorf("report %+v", r)
			}
			for i := range corpus.Train.Len() {
				row, err := corpus.Train.Row(i)
				if err != nil {
					t.Fatal(err)
				}
				if forked := row.Forks != nil; forked != (c.shared >= int64(18*(i+1))) {
					t.Errorf("row %d has forks %v", i, row.Forks)
				}
			}
		})
	}
}

// TestOneMarkedAnswerIsNotMadeTwo: the first waits for the one after it, and that is one more than may be read.
func TestOneMarkedAnswerIsNotMadeTwo(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": strings.Repeat(
		`{"prompt": "a", "completion": "b", "label": true}`+"\n", 4)}), "a.jsonl")
	m, none := model(64), 0.0
	m.Kind = Marked
	for most, want := range map[int]int{2: 2, 3: 3} {
		config := Config{Paths: []string{path}, EvalSize: &none, MaxSamples: most}
		if r := load(t, config, m).Report; r.Examples != want {
			t.Errorf("at most %d: %d examples", most, r.Examples)
		}
	}
	_, err := Load(t.Context(), Config{Paths: []string{path}, EvalSize: &none, MaxSamples: 1}, m)
	if err == nil || !strings.Contains(err.Error(), "one marked answer alone") {
		t.Errorf("at most 1: %v", err)
	}
}

// TestABadMarkedRowIsAlone: rows whose prompts cannot be written are left out by name, and no others.
func TestABadMarkedRowIsAlone(t *testing.T) {
	row := func(prompt, answer string) string {
		return fmt.Sprintf(`{"prompt": %q, "completion": %q, "label": true}`, prompt, answer) + "\n"
	}
	for name, c := range map[string]struct {
		text string
		bad  []string
		want []string
	}{
		"the first": {row("boom", "x") + row("a", "b") + row("c", "d"), []string{":1: "},
			[]string{"a: b or d", "c: d or b"}},
		"one between": {row("a", "b") + row("boom", "x") + row("c", "d") + row("e", "f"), []string{":2: "},
			[]string{"a: b or d", "c: d or b", "e: f or d"}},
		"several": {row("a", "b") + row("boom", "x") + row("boom", "y") + row("c", "d") + row("boom", "z"),
			[]string{":2: ", ":3: ", ":5: "}, []string{"a: b or d", "c: d or b"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder(t, map[string]string{"a.jsonl": c.text}), "a.jsonl")
			m := model(64)
			m.Kind = Marked
			none := 0.0
			config := Config{Paths: []string{path}, NoPacking: true, EvalSize: &none, SkipBadRows: true}
			corpus := load(t, config, m)
			if r := corpus.Report; r.Bad != len(c.bad) || r.Examples != len(c.want) {
				t.Errorf("report %+v", r)
			}
			for i, place := range c.bad {
				if got := corpus.Report.FirstBad[i]; !strings.HasPrefix(got, path+place) {
					t.Errorf("bad row %q, want %s", got, place)
				}
			}
			words := regexp.MustCompile(`^user>(\w)\|assistant>\[(\w)\|\]/?user>\w\|assistant>\[(\w)\|\]$`)
			for i, want := range c.want {
				if got := words.ReplaceAllString(text(t, corpus.Train, i), "$1: $2 or $3"); got != want {
					t.Errorf("row %d is %q, want %q", i, got, want)
				}
			}
			config.SkipBadRows = false
			if _, err := Load(t.Context(), config, m); err == nil || !strings.Contains(err.Error(), path+c.bad[0]) ||
				strings.Count(err.Error(), "SkipBadRows") != 1 {
				t.Errorf("error %v", err)
			}
		})
	}
}
