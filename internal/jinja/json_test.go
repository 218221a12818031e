package jinja

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseJSONKeepsOrderAndKind(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"order of keys":       {`{"b":1,"a":{"z":1,"y":2}}`, `{"b":1,"a":{"z":1,"y":2}}`},
		"a key twice":         {`{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		"ints and floats":     {`[1,1.0,-0,1e2,1E-7,0.1]`, `[1,1.0,0,100.0,1e-07,0.1]`},
		"a large int":         {`[123456789012345678901234567890]`, `[123456789012345678901234567890]`},
		"empty":               {`[{},[],"",null,true]`, `[{},[],"",null,true]`},
		"text beyond ASCII":   {`"\u65e5本\ud83d\ude00"`, `"日本😀"`},
		"escapes and slashes": {`"\/\u0001\"\\"`, `"/\u0001\"\\"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := ParseJSON([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			got, err := compactJSON(v)
			if err != nil || string(got) != tt.want {
				t.Errorf("%s came back as %s, %v; want %s", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestParseJSONRefuses(t *testing.T) {
	for _, in := range []string{``, `{`, `[1`, `{"a"}`, `{"a":}`, `1 2`, `nul`, `[1,]`, strings.Repeat("[", 100000)} {
		if v, err := ParseJSON([]byte(in)); err == nil {
			t.Errorf("ParseJSON(%.20q) = %v, want an error", in, v)
		}
	}
}

func TestDictIsJSON(t *testing.T) {
	var d struct{ Tools *Dict }
	if err := json.Unmarshal([]byte(`{"tools":{"b":[1.0],"a":2}}`), &d); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(d.Tools)
	if want := `{"b":[1.0],"a":2}`; err != nil || string(out) != want {
		t.Errorf("marshalled as %s, %v; want %s", out, err, want)
	}
	if err := json.Unmarshal([]byte(`{"tools":[1]}`), &d); err == nil {
		t.Error("a list was read as a dict")
	}
}
