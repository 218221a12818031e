package hf_test

import (
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// long is a head of eight of which six rotate, with the lengths of Phi-3-mini-128k.
const long = `"model_type": "phi3", "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, ` +
	`"partial_rotary_factor": 0.75, `

func longRope(t *testing.T, fields string) (*nn.RopeTable, *hf.Config, error) {
	t.Helper()
	c := parse(t, `{`+sizes+`, `+fields+`}`)
	d, err := c.Decoder(hf.Traits{PartialRotary: true, LongRope: true})
	return d.Attention.Rope, c, err
}

// TestShortFactorsHoldUpToTheOriginalLength: the scale is the one that transformers has for
// Phi-3-mini-128k, sqrt(1 + log 32 / log 4096).
func TestShortFactorsHoldUpToTheOriginalLength(t *testing.T) {
	short := []float64{1.05, 1.5, 2}
	for _, kind := range []string{`"type": "su"`, `"type": "longrope"`, `"rope_type": "longrope", "factor": 32`} {
		table, c, err := longRope(t, long+`"rope_scaling": {`+kind+`, "short_factor": [1.05, 1.5, 2], "long_factor": [3, `+
			`4, 5]}`)
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(table.Scale-1.1902380714238083) <= 1e-15) {
			t.Errorf("%s: scale %v", kind, table.Scale)
		}
		for i, by := range short {
			if want := 1 / (by * math.Pow(10000, float64(2*i)/6)); len(table.InvFreq) != 3 ||
				!(math.Abs(table.InvFreq[i]-want) <= 1e-15) {
				t.Errorf("%s: frequencies %v; number %d is to be %v", kind, table.InvFreq, i, want)
			}
		}
		if err := c.CheckLength("--seq", 4096, 1); err != nil {
			t.Error(err)
		}
		if err := c.CheckLength("--seq", 4097, 1); err == nil || !strings.Contains(err.Error(),
			"--seq is 4097, but the model's original_max_position_embeddings, up to which longrope") {
			t.Errorf("rows beyond the short factors: %v", err)
		}
	}
	table, c, err := longRope(t, long+`"rope_scaling": {"type": "su", "attention_factor": 1.25, "short_factor": [1, `+
		`1, 1], "long_factor": [3, 4, 5]}`)
	if err != nil || table.Scale != 1.25 || c.MaxPositionEmbeddings != 4096 {
		t.Errorf("scale %v, want that of the file; %d positions, %v", table, c.MaxPositionEmbeddings, err)
	}
}

func TestARopeThatDoesNotStretchKeepsItsLength(t *testing.T) {
	_, c, err := longRope(t, long+`"rope_scaling": null`)
	if err != nil || c.MaxPositionEmbeddings != 131072 {
		t.Errorf("%d positions, %v", c.MaxPositionEmbeddings, err)
	}
	if err := c.CheckLength("--seq", 131073, 1); err == nil || !strings.Contains(err.Error(),
		"max_position_embeddings is 131072") {
		t.Errorf("more tokens than positions: %v", err)
	}
}

func TestLongRopeErrorsNameTheField(t *testing.T) {
	for fields, want := range map[string]string{
		`"rope_scaling": {"type": "linear", "factor": 2}`: `rope_type "linear" is not ` +
			`supported by model_type phi3; supported: default, longrope`,
		`"rope_scaling": {"type": "yarn", "factor": 32}`: "short_factor and long_factor have 0 and 0 numbers, want 3",
		`"rope_scaling": {"type": "su", "short_factor": [1, 1], "long_factor": [1, 1, ` +
			`1]}`: "have 2 and 3 numbers, want 3",
		`"rope_scaling": {"type": "su", "short_factor": [1, 0, 1], "long_factor": [1, 1, ` +
			`1]}`: "rope_scaling give an angle or a scale of +Inf",
		`"rope_scaling": {"type": "su", "short_factor": [1, 1e-320, 1], "long_factor": [1, 1, ` +
			`1]}`: "rope_scaling give an angle or a scale of +Inf",
		`"rope_scaling": {"type": "su", "attention_factor": -1, "short_factor": [1, 1, 1], "long_factor": [1, 1, ` +
			`1]}`: "rope_scaling give an angle or a scale of -1",
		`"rope_scaling": {"type": "su", "factor": 4, "short_factor": [1, 1, 1], "long_factor": [1, 1, ` +
			`1]}`: "or factor to 32",
		`"rope_scaling": {"type": "su", "original_max_position_embeddings": ` +
			`8192}`: "original_max_position_embeddings is 4096, and 8192 in rope_scaling",
		`"rope_scaling": {"type": "su", "short_mscale": 1.1}`: `unknown field "short_mscale", which is not supported`,
		`"rope_scaling": {"type": "su", "short_factor": 1}`:   "short_factor",
		`"rope_parameters": {"rope_type": "default", "short_factor": [1, 1, ` +
			`1]}`: `short_factor and long_factor are not supported by rope_type ` +
			`"default"`,
		`"rope_theta": 5, "rope_scaling": {"type": "su", "rope_theta": 6, "short_factor": [1], "long_factor": [1, ` +
			`1]}`: "rope_theta is 5, and 6",
	} {
		var c hf.Config
		err := hf.Decode([]byte(`{`+sizes+`, `+long+fields+`}`), &c)
		if err == nil {
			err = c.Complete()
		}
		if err == nil {
			_, err = c.Decoder(hf.Traits{PartialRotary: true, LongRope: true})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", fields, err, want)
		}
	}
}
