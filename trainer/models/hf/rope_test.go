package hf_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// TestRopeTableEqualsPublishedCode compares with frequencies computed in float64.
func TestRopeTableEqualsPublishedCode(t *testing.T) {
	base := filepath.Join(testdata.Shared(t, "golden", "ops"), "rope_init")
	text, err := os.ReadFile(base + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Variants map[string]struct {
			Params map[string]any `json:"params"`
		} `json:"variants"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.Open(base + ".safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, v := range index.Variants {
		t.Run(name, func(t *testing.T) {
			v.Params["vocab_size"], v.Params["num_hidden_layers"], v.Params["intermediate_size"] = 8, 1, 8
			config, err := json.Marshal(v.Params)
			if err != nil {
				t.Fatal(err)
			}
			table, err := parse(t, string(config)).RopeTable()
			if err != nil {
				t.Fatal(err)
			}
			freq, err := f.Tensor(name + ".f64.inv_freq")
			scale, err2 := f.Tensor(name + ".f64.attention_scaling")
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if len(table.InvFreq) != freq.Elems() {
				t.Fatalf("%d frequencies, want %d", len(table.InvFreq), freq.Elems())
			}
			for i, want := range freq.Float64s() {
				if got := table.InvFreq[i]; !(math.Abs(got-want) <= 1e-14*want) {
					t.Errorf("frequency %d is %v, want %v", i, got, want)
				}
			}
			if want := scale.Float64s()[0]; !(math.Abs(table.Scale-want) <= 1e-14) {
				t.Errorf("scale is %v, want %v", table.Scale, want)
			}
		})
	}
}

// parse reads a configuration that is in order.
func parse(t *testing.T, config string) *hf.Config {
	t.Helper()
	var c hf.Config
	if err := hf.Decode([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	return &c
}

const sizes = `"vocab_size": 10, "hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 1, ` +
	`"num_attention_heads": 2`

func TestRopeTableOfNewAndOldFieldsIsTheSame(t *testing.T) {
	want, err := parse(t, `{`+sizes+`, "rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": `+
		`2}}`).RopeTable()
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]string{
		"the older name of the type": `{` + sizes + `, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2}}`,
		"rope_parameters": `{` + sizes + `, "rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", ` +
			`"factor": 2}}`,
		"both": `{` + sizes + `, "rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 2},
			"rope_parameters": {"rope_type": "linear", "factor": 2}}`,
		"both, one of them in full": `{` + sizes + `, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2},
			"rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5e5, "partial_rotary_factor": 1},
			"partial_rotary_factor": 1}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, config).RopeTable()
			if err != nil {
				t.Fatal(err)
			}
			for i := range want.InvFreq {
				if got.InvFreq[i] != want.InvFreq[i] {
					t.Errorf("frequency %d is %v, want %v", i, got.InvFreq[i], want.InvFreq[i])
				}
			}
		})
	}
}

func TestTheLengthsOfYarnGiveItsFactor(t *testing.T) {
	const lengths = `"max_position_embeddings": 16384, "rope_scaling": {"rope_type": "yarn", ` +
		`"original_max_position_embeddings": 4096`
	got, err := parse(t, `{`+sizes+`, `+lengths+`}}`).RopeTable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := parse(t, `{`+sizes+`, `+lengths+`, "factor": 4}}`).RopeTable()
	if err != nil {
		t.Fatal(err)
	}
	if got.Scale != want.Scale || !slices.Equal(got.InvFreq, want.InvFreq) {
		t.Errorf("%v, with the factor %v", got, want)
	}
}

// TestRopeParametersObeyTheFactor: transformers 5 writes max_position_embeddings as the original length of a file that
// has none, and goes by the factor, as it does where the lengths say something else.
func TestRopeParametersObeyTheFactor(t *testing.T) {
	const yarn = `"rope_type": "yarn", "factor": 4`
	table := func(positions, fields string) *nn.RopeTable {
		got, err := parse(t, `{`+sizes+`, "head_dim": 64, "max_position_embeddings": `+positions+`, `+fields+`}`).RopeTable()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := table("32768", `"rope_scaling": {`+yarn+`}`)
	for _, positions := range []string{"32768", "40960"} {
		got := table(positions, `"rope_parameters": {`+yarn+`, "original_max_position_embeddings": 32768}`)
		if got.Scale != want.Scale || !slices.Equal(got.InvFreq, want.InvFreq) {
			t.Errorf("%s positions: %v, want %v", positions, got, want)
		}
	}
}

func TestThePartThatRotatesIsReadInEitherPlace(t *testing.T) {
	for name, config := range map[string]string{
		"its own field":   `"partial_rotary_factor": 0.5`,
		"rope_parameters": `"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}`,
	} {
		table, err := parse(t, `{`+sizes+`, `+config+`}`).RopeTable()
		if err != nil || len(table.InvFreq) != 2 { // of a head of 8, 4 rotate
			t.Errorf("%s: %v, %v", name, table, err)
		}
	}
}

func TestYarnOptionsChangeTheTable(t *testing.T) {
	yarn := func(more string) (freq, scale float64) {
		table, err := parse(t, `{`+sizes+`, "head_dim": 64, "max_position_embeddings": 16384, "rope_scaling": `+
			`{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096`+more+`}}`).RopeTable()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, f := range table.InvFreq {
			sum += f
		}
		return sum, table.Scale
	}
	freq, scale := yarn("")
	if want := 0.1*math.Log(4) + 1; scale != want {
		t.Errorf("scale %v, want %v", scale, want)
	}
	if _, s := yarn(`, "attention_factor": 0.75`); s != 0.75 {
		t.Errorf("with attention_factor 0.75: scale %v", s)
	}
	if _, s := yarn(`, "mscale": 2, "mscale_all_dim": 1`); s != (0.2*math.Log(4)+1)/(0.1*math.Log(4)+1) {
		t.Errorf("with mscale: scale %v", s)
	}
	for _, more := range []string{`, "beta_fast": 8`, `, "beta_slow": 0.1`, `, "truncate": false`} {
		if f, _ := yarn(more); f == freq {
			t.Errorf("%s changes nothing", more)
		}
	}
}

func TestRopeErrorsNameTheField(t *testing.T) {
	tests := []struct{ name, fields, want string }{
		{"unknown type", `"rope_scaling": {"rope_type": "longrope", "factor": 2}`,
			`rope_type "longrope" is not supported; supported: default, linear, llama3, yarn`},
		{"a field of nobody's", `"rope_scaling": {"rope_type": "linear", "factor": 2, "mrope_section": [1]}`,
			`unknown field "mrope_section"`},
		{"frequencies by layer", `"rope_parameters": {"full_attention": {"rope_type": "default"}}`,
			"full_attention and sliding_attention with fields of their own are not supported"},
		{"text for a factor", `"rope_scaling": {"rope_type": "linear", "factor": 2, "beta_fast": "fast"}`, "beta_fast"},
		{"no type", `"rope_scaling": {"factor": 2}`, "factor 2 without a rope_type"},
		{"lengths that disagree with the factor", `"max_position_embeddings": 40960, "rope_scaling": {"rope_type": ` +
			`"yarn", "factor": 4, "original_max_position_embeddings": 32768}`,
			"set max_position_embeddings to 131072, or factor to 1.25"},
		{"two original lengths", `"max_position_embeddings": 16384, "original_max_position_embeddings": 8192, ` +
			`"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}`,
			"original_max_position_embeddings is 4096, and 8192 beside it"},
		{"two original lengths of llama3", `"original_max_position_embeddings": 8192, "rope_scaling": ` +
			`{"rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4, ` +
			`"original_max_position_embeddings": 4096}`,
			"original_max_position_embeddings is 4096, and 8192 beside it"},
		{"an original length beside yarn", `"max_position_embeddings": 16384, "original_max_position_embeddings": 8192, ` +
			`"rope_scaling": {"rope_type": "yarn", "factor": 4}`,
			"original_max_position_embeddings is 16384, and 8192 beside it"},
		{"both forms, whose lengths disagree", `"max_position_embeddings": 40960, "rope_scaling": {"rope_type": "yarn", ` +
			`"factor": 4, "original_max_position_embeddings": 32768}, "rope_parameters": {"rope_type": "yarn", ` +
			`"factor": 4, "original_max_position_embeddings": 32768}`, "set max_position_embeddings to 131072"},
		{"two forms that differ", `"rope_scaling": {"rope_type": "linear", "factor": 2}, "rope_parameters": ` +
			`{"rope_type": "default"}`, "rope_scaling and rope_parameters differ"},
		{"a negative length", `"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": -1}`,
			"original_max_position_embeddings is -1"},
		{"turns that have no logarithm", `"rope_scaling": {"rope_type": "yarn", "factor": 4, "beta_fast": -1}`,
			"give an angle or a scale of NaN"},
		{"a scale of nothing", `"rope_scaling": {"rope_type": "yarn", "factor": 4, "attention_factor": 0}`,
			"give an angle or a scale of 0"},
		{"yarn without a factor", `"rope_scaling": {"rope_type": "yarn"}`, "factor is 0"},
		{"yarn of a base of one", `"rope_theta": 1, "rope_scaling": {"rope_type": "yarn", "factor": 4}`,
			"rope_theta 1, must be above 1"},
		{"no factor", `"rope_scaling": {"rope_type": "linear"}`, "factor is 0"},
		{"llama3 without its fields", `"rope_scaling": {"rope_type": "llama3", "factor": 8}`, "low_freq_factor"},
		{"odd part of a head", `"partial_rotary_factor": 0.4`, "partial_rotary_factor 0.4 of head_dim 8"},
		{"more than a head", `"partial_rotary_factor": 2`, "partial_rotary_factor 2"},
		{"negative base", `"rope_theta": -1`, "rope_theta -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c hf.Config
			err := hf.Decode([]byte(`{`+sizes+`, `+tt.fields+`}`), &c)
			if err == nil {
				err = c.Complete()
			}
			if err == nil {
				_, err = c.RopeTable()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestPaddingCountsFromEitherEnd(t *testing.T) {
	for field, want := range map[string]int{`"pad_token_id": null`: -1, `"pad_token_id": 0`: 0, `"pad_token_id": 9`: 9,
		`"pad_token_id": -1`: 9} {
		if got := parse(t, `{`+sizes+`, `+field+`}`).Padding(); got != want {
			t.Errorf("%s: padding %d, want %d", field, got, want)
		}
	}
}
