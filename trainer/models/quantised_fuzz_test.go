package models

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// whole is a quantization_config as tune quantize writes it.
func whole(tb testing.TB, scaling core.Scaling, dynamic ...string) string {
	tb.Helper()
	text, err := json.Marshal(NewQuantisation(scaling, dynamic, []string{"lm_head"}))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// FuzzQuantisation gives config.json something else to say of weights in int8: it is either what tune knows, or an error
// that names the file, the field and what to do.
func FuzzQuantisation(f *testing.F) {
	for _, text := range []string{whole(f, core.StaticScaling, "a"), whole(f, core.DynamicScaling), whole(f, ""), "null", "{}",
		`{"quant_method": "gptq"}`, `[]`, `7`, `{"config_groups": {"g": null}}`, `{"config_groups": {"g": {"weights": []}}}`,
		strings.Replace(whole(f, ""), `"num_bits":8`, `"num_bits":1e99`, 1)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := quantisationOf([]byte(`{"quantization_config": ` + text + `}`))
		switch {
		case err != nil && !strings.HasPrefix(err.Error(), "config.json: "):
			t.Errorf("the error does not name the file: %v", err)
		case err != nil && strings.Contains(err.Error(), "quantization_config") && !strings.Contains(err.Error(), "tune quantize"):
			t.Errorf("the error has no remedy: %v", err)
		case err != nil || q == nil:
		case q.check() != nil:
			t.Errorf("%s is taken, and %v", text, q.check())
		default:
			for _, hasScale := range []bool{false, true} {
				if s := q.scaling(hasScale); s != "" && s != core.StaticScaling && s != core.DynamicScaling {
					t.Errorf("%s has the scaling %q", text, s)
				}
			}
		}
	})
}

// TestBadQuantisationIsNamed: the file, the field, and what is supported.
func TestBadQuantisationIsNamed(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"compressed-tensors"`, `"gptq"`, `quant_method "gptq" is not supported; supported: bitsandbytes, and compressed-tensors`},
		{`"int-quantized"`, `"pack-quantized"`, `format is "pack-quantized"`},
		{`"num_bits":8`, `"num_bits":4`, "config_groups.group_0.weights is int of 4 bits"},
		{`"num_bits":8`, `"num_bits":"8"`, "num_bits"},
		{`"strategy":"channel"`, `"strategy":"group"`, `config_groups.group_0.weights is int of 8 bits, symmetric true, strategy "group"`},
		{`"strategy":"token"`, `"strategy":"tensor"`, "config_groups.group_0.input_activations"},
		{`"output_activations":null`, `"output_activations":{"num_bits":8}`, "config_groups.group_0.output_activations"},
		{`"group_0"`, `"other"`, ""},
		{`"dynamic":true`, `"dynamic":"local"`, "input_activations.dynamic"},
		{`"group_0":`, `"group_1":{"targets":["re:.*down_proj"],"weights":{"num_bits":8,"type":"int","symmetric":true,` +
			`"strategy":"channel"}},"group_0":`, "config_groups.group_0 has input_activations and config_groups.group_1 has none"},
		{`"ignore"`, `"kv_cache_scheme":{"num_bits":8},"ignore"`, "kv_cache_scheme is there"},
		{`"ignore"`, `"kv_cache_scheme":null,"transform_config":{},"ignore"`, ""},
		{`"ignore"`, `"transform_config":{"config_groups":{"R1":{"type":"hadamard"}}},"ignore"`, "transform_config is there"},
		{`"config_groups":`, `"groups":`, "config_groups is empty"},
		{`{"quant_method"`, `7,{"quant_method"`, "config.json"},
	} {
		text := strings.Replace(whole(t, core.DynamicScaling), c.from, c.to, 1)
		_, err := quantisationOf([]byte(`{"quantization_config": ` + text + `}`))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "config.json: ") {
			t.Errorf("%s in place of %s: error %v, want %q in it", c.to, c.from, err, c.want)
		}
	}
	_, err := quantisationOf([]byte(`{"compression_config": ` + whole(t, core.DynamicScaling) + `}`))
	if err == nil || !strings.Contains(err.Error(), "compression_config") {
		t.Errorf("the old name: error %v", err)
	}
}
