package plainjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

type base struct {
	Size *int `json:"hidden_size"`
}

type file struct {
	base
	Base
	Name  string           `json:"name"`
	Rate  float64          `json:"rate"`
	Tie   bool             `json:"tie"`
	Seed  uint64           `json:"seed"`
	Short int8             `json:"short"`
	List  []string         `json:"list"`
	Map   map[string]int32 `json:"map"`
	In    struct {
		Deep []int `json:"deep"`
	} `json:"in"`
	Own own `json:"own"`
}

// Base is embedded, which encoding/json has in its paths.
type Base struct {
	Layers int `json:"layers"`
}

type own struct{}

var errOwn = errors.New("own: may not be there")

func (*own) UnmarshalJSON([]byte) error { return errOwn }

func TestErrorsAreInTheWordsOfTheFile(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a list for an object":  {`[]`, `want an object, have a list`},
		"beyond any float":      {`{"rate": 1e999}`, `field rate: want a number of 64 bits, have 1e999`},
		"a string for a number": {`{"rate": "x"}`, `field rate: want a number, have a string`},
		"a number for a string": {`{"name": 3}`, `field name: want a string, have a number`},
		"a string for an int":   {`{"layers": "64"}`, `field layers: want a whole number, have a string`},
		"a fraction for an int": {`{"layers": 64.5}`, `field layers: want a whole number, have 64.5`},
		"too large":             {`{"short": 300}`, `field short: want a whole number of at most 127, have 300`},
		"negative": {`{"seed": -1}`,
			`field seed: want a whole number from 0 of at most 18446744073709551615, have -1`},
		"a string for a truth": {`{"tie": "yes"}`, `field tie: want true or false, have a string`},
		"a truth for a list":   {`{"list": true}`, `field list: want a list, have true or false`},
		"an object for a list": {`{"in": {"deep": {}}}`, `field in.deep: want a list, have an object`},
		"a list for a map":     {`{"map": []}`, `field map: want an object, have a list`},
		"nothing":              {" \n", `it is empty, where JSON should be`},
		"an end in the middle": {"{\n\"rate\": 1",
			`the JSON ends in the middle, at line 2, column 10: a part of it is missing`},
		"an end in one line":    {`{"rate"`, `the JSON ends in the middle, at column 8: a part of it is missing`},
		"a missing comma":       {"{\"rate\": 1\n \"tie\": true}", `no JSON at line 2, column 2: unexpected '"'`},
		"a comma too many":      {`{"näme": "a",}`, `no JSON at column 14: unexpected '}'`},
		"something after it":    {`{} x`, `no JSON at column 4: unexpected 'x'`},
		"nested without an end": {strings.Repeat("[", 10001), `the JSON is nested too deep at column 10002`},
		"a byte order mark":     {"\xef\xbb\xbf{}", `it begins with a byte order mark: save it as UTF-8 without one`},
		"UTF-16":                {"\xff\xfe{\x00", `it is UTF-16: save it as UTF-8`},
		"a pointer of Git LFS": {"version https://git-lfs.github.com/spec/v1\n",
			`it is a pointer of Git LFS and not the file itself: fetch that with git lfs pull`},
		"a web page":             {"<!doctype html>", `it is a web page and not JSON: download the file itself`},
		"what the field says":    {`{"own": 1}`, errOwn.Error()},
		"a number without digit": {`{"rate": NaN}`, `no JSON at column 10: unexpected 'N'`},
	} {
		t.Run(name, func(t *testing.T) {
			var into file
			if err := Unmarshal([]byte(tt.text), &into); err == nil || err.Error() != tt.want {
				t.Errorf("error\n%v, want\n%s", err, tt.want)
			}
		})
	}
	if err := Unmarshal([]byte(`{"rate": 1}`), new(file)); err != nil {
		t.Error(err)
	}
}

func TestOtherErrorsStay(t *testing.T) {
	if err := Explain(nil, nil, errOwn); !errors.Is(err, errOwn) {
		t.Errorf("error %v", err)
	}
	if err := Explain(nil, nil, nil); err != nil {
		t.Errorf("error %v", err)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{`{}`, `[1`, "\xff", `{"in": {"deep": [""]}}`, "\n\n]", "\u2028{"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, got := json.Unmarshal([]byte(text), new(file)), Unmarshal([]byte(text), new(file))
		if (want == nil) != (got == nil) {
			t.Fatalf("error %v, want %v", got, want)
		}
		if got != nil && (strings.Contains(got.Error(), "Go ") || strings.Contains(got.Error(), "plainjson")) {
			t.Errorf("error %q", got)
		}
	})
}
