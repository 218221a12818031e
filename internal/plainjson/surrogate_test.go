package plainjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestSurrogates(t *testing.T) {
	for text, want := range map[string]error{
		`{"a": "b"}`:                     nil,
		`"\ud83d\ude00"`:                 nil,
		`"x\ud83d\ude00\n\u00e4\\ud83d"`: nil, // the last is a backslash and letters
		`"\ud83d"`:                       ErrSurrogate,
		`"\ude00\ud83d"`:                 ErrSurrogate,
		`"\ud83d\ud83d\ude00"`:           ErrSurrogate,
		`"\ud83dx"`:                      ErrSurrogate,
		`"\uD83D\n"`:                     ErrSurrogate,
		`["\\\ude00", "\ud83d\ude00"]`:   ErrSurrogate,
		`{"\ud83d": 1}`:                  ErrSurrogate,
	} {
		if err := Surrogates([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// FuzzSurrogates compares with what encoding/json makes of a text.
func FuzzSurrogates(f *testing.F) {
	for _, text := range []string{`\ud83d\ude00`, `\\ud83d`, `\ude00x`, `\ufffd`, "a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted := `"` + strings.NewReplacer(`"`, "", "\ufffd", "", `\ufffd`, "", `\uFFFD`, "").Replace(text) + `"`
		var s string
		if strings.Contains(strings.ToLower(quoted), `\ufffd`) || strings.ToValidUTF8(quoted, "") != quoted ||
			json.Unmarshal([]byte(quoted), &s) != nil {
			return
		}
		if err := Surrogates([]byte(quoted)); (err != nil) != strings.ContainsRune(s, '\ufffd') {
			t.Errorf("%s is %q: %v", quoted, s, err)
		}
	})
}
