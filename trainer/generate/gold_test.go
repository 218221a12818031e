package generate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
)

// story is a prompt and what another program makes of it by greedy decoding.
type story struct {
	Prompt string  `json:"prompt"`
	IDs    []int32 `json:"prompt_ids"`
	Greedy []int32 `json:"greedy_ids"`
	Text   string  `json:"greedy_text"`
}

func stories(t *testing.T, dir string) []story {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "gold.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []story }
	if err := json.Unmarshal(b, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("gold.json: %d cases, %v", len(file.Cases), err)
	}
	return file.Cases
}

func load(t *testing.T, dir string) *models.Model {
	t.Helper()
	m, err := models.Load(dir, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

// greedy returns so many tokens after the prompt.
func greedy(t *testing.T, s *generate.Session, prompt []int32, n int) []int32 {
	t.Helper()
	var out []int32
	next := prompt
	for range n {
		logits, err := s.Feed(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		best := 0
		for i, l := range logits {
			if l > logits[best] {
				best = i
			}
		}
		out = append(out, int32(best))
		next = out[len(out)-1:]
	}
	return out
}

func TestGreedyTokensAreTheRecordedOnes(t *testing.T) {
	for _, name := range []string{"stories260K", "stories15M"} {
		dir := testdata.Shared(t, "data", "models", name)
		m := load(t, dir)
		for _, c := range stories(t, dir) {
			t.Run(name+"/"+c.Prompt, func(t *testing.T) {
				s := generate.NewSession(m, autograd.Heap{}, 0)
				defer s.Close()
				want := c.Greedy[len(c.IDs):]
				if got := greedy(t, s, c.IDs, len(want)); !slices.Equal(got, want) {
					t.Errorf("tokens %v, recorded %v", got, want)
				}
			})
		}
	}
}
