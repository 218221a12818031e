package corpus

import (
	"math"
	"path/filepath"
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
