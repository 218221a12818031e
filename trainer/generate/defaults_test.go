package generate_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/generate"
)

func TestDefaultsAreThoseOfTheFolder(t *testing.T) {
	greedy := generate.Sampling{TopP: 1, RepetitionPenalty: 1}
	tests := []struct {
		name, generation, config string
		sampling                 generate.Sampling
		eos                      []int32
	}{
		{"no files", "", "", greedy, nil},
		{"the model's own end token", "", `{"eos_token_id": 2}`, greedy, []int32{2}},
		{"a list", "", `{"eos_token_id": [2, 5]}`, greedy, []int32{2, 5}},
		{"generation_config.json comes first", `{"eos_token_id": [1, 2]}`, `{"eos_token_id": 3}`, greedy, []int32{1, 2}},
		{"null is none", `{"eos_token_id": null}`, `{"eos_token_id": 3}`, greedy, []int32{3}},
		{"none", `{"eos_token_id": -1}`, "", greedy, []int32{}},
		{"values without do_sample", `{"temperature": 0.6, "top_p": 0.9}`, "", greedy, nil},
		{"sampling", `{"do_sample": true}`, "", generate.Sampling{Temperature: 1, TopK: 50, TopP: 1, RepetitionPenalty: 1},
			nil},
		{"all of it", `{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.01,
			"repetition_penalty": 1.05}`, "",
			generate.Sampling{Temperature: 0.6, TopK: 20, TopP: 0.95, MinP: 0.01, RepetitionPenalty: 1.05}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := generate.LoadDefaults(folder(t, tt.generation, tt.config))
			if err != nil {
				t.Fatal(err)
			}
			if d.Sampling != tt.sampling || !slices.Equal(d.EOS, tt.eos) {
				t.Errorf("%+v, want %+v and %v", d, tt.sampling, tt.eos)
			}
		})
	}
}

func TestBadDefaultsNameTheFile(t *testing.T) {
	for generation, want := range map[string]string{
		`{"eos_token_id": "x"}`:                  "generation_config.json",
		`{`:                                      "generation_config.json",
		`{"do_sample": true, "temperature": -1}`: "temperature",
		`{"repetition_penalty": 0}`:              "repetition_penalty is 0",
		`{"repetition_penalty": 1e-310}`:         "repetition_penalty is 1e-310, must be between 0.01 and 100",
	} {
		if _, err := generate.LoadDefaults(folder(t, generation, "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", generation, err, want)
		}
	}
}

// TestWhatIsNotHeededIsSaid but for values that change nothing.
func TestWhatIsNotHeededIsSaid(t *testing.T) {
	for generation, want := range map[string][]string{
		"": nil,
		`{"do_sample": true, "temperature": 0.5, "num_beams": 1, "guidance_scale": 1.0, "typical_p": 1.0, "min_length": 0,
			"suppress_tokens": [], "bad_words_ids": null, "transformers_version": "5"}`: nil,
		`{"num_beams": 4, "suppress_tokens": [1, 2], "typical_p": 0.5}`:   {"num_beams 4", "suppress_tokens [1,2]"},
		`{"do_sample": true, "typical_p": 0.5, "stop_strings": ["\n\n"]}`: {`stop_strings ["\n\n"]`, "typical_p 0.5"},
	} {
		got, err := generate.Ignored(folder(t, generation, ""))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", generation, got, err, want)
		}
	}
	if _, err := generate.Ignored(folder(t, "[", "")); err == nil {
		t.Error("no error of what is no JSON")
	}
}

// folder writes the files that have any content.
func folder(t *testing.T, generation, config string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"generation_config.json": generation, "config.json": config} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
