package generate

import (
	"encoding/json"
	"fmt"
	"slices"
)

// neutral are the fields of generation_config.json that change what transformers writes and are not heeded here, each
// with the values that change nothing. null is one for all.
var neutral = map[string][]string{
	"bad_words_ids":                    {"[]"},
	"begin_suppress_tokens":            {"[]"},
	"dola_layers":                      nil,
	"encoder_no_repeat_ngram_size":     {"0"},
	"encoder_repetition_penalty":       {"1"},
	"exponential_decay_length_penalty": nil,
	"force_words_ids":                  {"[]"},
	"forced_bos_token_id":              nil,
	"forced_eos_token_id":              nil,
	"guidance_scale":                   {"1"},
	"min_length":                       {"0"},
	"min_new_tokens":                   {"0"},
	"no_repeat_ngram_size":             {"0"},
	"num_beams":                        {"1"},
	"penalty_alpha":                    {"0"},
	"sequence_bias":                    {"{}", "[]"},
	"stop_strings":                     {"[]"},
	"suppress_tokens":                  {"[]"},
	"watermarking_config":              nil,
}

// neutralDrawn are those that count where tokens are drawn.
var neutralDrawn = map[string][]string{
	"epsilon_cutoff": {"0"},
	"eta_cutoff":     {"0"},
	"top_h":          {"1"},
	"typical_p":      {"1"},
}

// Ignored returns what a model's generation_config.json says that is not heeded, and with which transformers would
// write other texts, such as "num_beams 4". It need not exist.
func Ignored(dir string) ([]string, error) {
	var fields map[string]any
	if err := readJSON(dir, "generation_config.json", &fields); err != nil {
		return nil, err
	}
	var all []string
	look := func(neutral map[string][]string) {
		for name, values := range neutral {
			if value := fields[name]; value != nil {
				text, err := json.Marshal(value) // 1.0 becomes 1
				if err == nil && !slices.Contains(values, string(text)) {
					all = append(all, fmt.Sprintf("%s %.40s", name, text))
				}
			}
		}
	}
	look(neutral)
	if draws, _ := fields["do_sample"].(bool); draws {
		look(neutralDrawn)
	}
	slices.Sort(all)
	return all, nil
}
