package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// transformers: tokenization_utils_fast.py, PreTrainedTokenizerFast (4), and tokenization_utils_tokenizers.py,
// TokenizersBackend (5): what a field such as eos_token names is one token in every text, and carries none.
func TestNamedSpecialTokensAreFoundInTexts(t *testing.T) {
	for name, tt := range map[string]struct {
		config, special string
		ids             []int32
		text            string
	}{
		"named by none":        {`{}`, `{}`, []int32{260, 259}, " hellohello"},
		"a role":               {`{"eos_token": "hello"}`, ``, []int32{32, 259, 259}, " "},
		"an older file":        {`{"bos_token": "<s>"}`, `{"unk_token": "hello"}`, []int32{32, 259, 259}, " "},
		"a role taken away":    {`{"unk_token": null}`, `{"unk_token": "hello"}`, []int32{260, 259}, " hellohello"},
		"with white space":     {`{"pad_token": {"content": "hello", "lstrip": true}}`, ``, []int32{259, 259}, ""},
		"one of a list":        {`{"additional_special_tokens": ["<s>", "hello"]}`, ``, []int32{32, 259, 259}, " "},
		"one of a newer":       {`{"extra_special_tokens": ["hello"]}`, ``, []int32{32, 259, 259}, " "},
		"one of an object":     {`{"extra_special_tokens": {"a_token": "hello"}}`, ``, []int32{32, 259, 259}, " "},
		"one of a model's own": {`{"model_specific_special_tokens": {"a": "hello"}}`, ``, []int32{32, 259, 259}, " "},
		"an added one stays":   {`{"cls_token": "<call>"}`, ``, []int32{260, 259}, " hellohello"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{tokenizerFile: string(byteFile(t, nil)), configFile: tt.config}
			if tt.special != "" {
				files[specialTokensFile] = tt.special
			}
			dir := writeDir(t, files)
			tok, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			got := tok.Encode(" hellohello", false)
			if !slices.Equal(got, tt.ids) || tok.Decode(got, true) != tt.text {
				t.Errorf("%v, %q, want %v, %q", got, tok.Decode(got, true), tt.ids, tt.text)
			}
			spec, err := LoadSpec(dir)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(spec.Added); n != 3 && slices.Equal(got, []int32{260, 259}) || n != 4 && got[0] != 260 {
				t.Errorf("%d added tokens to export", n)
			}
			if call := tok.Encode("<call>", false); tok.Decode(call, true) != "<call>" {
				t.Error("what tokenizer.json says of its tokens counts no more")
			}
		})
	}
}

// Fields that change what transformers makes of a text, and what is done about them here.
func TestWhatTheConfigurationAsksForIsRefused(t *testing.T) {
	spaced := string(byteFile(t, object{"pre_tokenizer": object{"type": "ByteLevel"}}))
	for name, tt := range map[string]struct{ file, config, want string }{
		"special tokens cut": {"", `{"split_special_tokens": true}`, `tokenizer_config.json: split_special_tokens true`},
		"a space before": {"", `{"add_prefix_space": true}`,
			`pre_tokenizer.add_prefix_space is false, and true in tokenizer_config.json`},
		"no space before": {spaced, `{"add_prefix_space": false}`,
			`pre_tokenizer.add_prefix_space is true, and false in tokenizer_config.json`},
		"the same space":   {spaced, `{"add_prefix_space": true, "split_special_tokens": false}`, ""},
		"a space unsaid":   {spaced, `{}`, ""},
		"an absent token":  {"", `{"unk_token": "<u>"}`, `unk_token of tokenizer_config.json: "<u>" is not a token`},
		"absent in a list": {"", `{"additional_special_tokens": ["<s>", "<u>"]}`, `additional_special_tokens of`},
		"none of a list":   {"", `{"additional_special_tokens": [null, ""], "extra_special_tokens": null}`, ""},
		"a token of a number": {"", `{"extra_special_tokens": [3]}`,
			`tokenizer_config.json: field extra_special_tokens: want a token`},
		"no list": {"", `{"extra_special_tokens": "<s>"}`, `field extra_special_tokens: want a list or an object`},
	} {
		t.Run(name, func(t *testing.T) {
			file := tt.file
			if file == "" {
				file = string(byteFile(t, nil))
			}
			_, err := Load(writeDir(t, map[string]string{tokenizerFile: file, configFile: tt.config}))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
