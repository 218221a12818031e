package plainjson

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"
)

type inner struct {
	X float64 `json:"x"`
	s string
}

type marshalled struct {
	inner
	Name     string             `json:"name"`
	List     []float64          `json:"list"`
	Pair     [2]float64         `json:"pair"`
	At       *float64           `json:"at"`
	Zero     float64            `json:"zero,omitempty"`
	Lost     float64            `json:"lost,omitempty"`
	By       map[string]float64 `json:"by"`
	None     []float64          `json:"none"`
	Structs  []inner            `json:"structs"`
	Any      any                `json:"any"`
	Nil      any                `json:"nil"`
	When     time.Time          `json:"when,omitzero"`
	Raw      json.RawMessage    `json:"raw"`
	Ignored  float64            `json:"-"`
	Embedded `json:"named"`
	*Pointed
	Shadow float64 `json:"shadow"`
}

// Pointed is embedded by a pointer, and has a field that is hidden.
type Pointed struct {
	Depth  float64 `json:"depth"`
	Shadow string  `json:"shadow"`
}

// Embedded has a value of its own form.
type Embedded struct {
	Took time.Duration `json:"took_ns"`
	Rate float64       `json:"rate"`
}

func value(x float64) marshalled {
	return marshalled{inner: inner{X: 1.5, s: "hidden"}, Name: "a<b", List: []float64{0.1, x}, Pair: [2]float64{x, 2},
		At: &x, Lost: x,
		By: map[string]float64{"k": x}, Structs: []inner{{X: x}}, Any: inner{X: x}, Raw: json.RawMessage(`{"y":1e400}`),
		Ignored:  x,
		Embedded: Embedded{time.Second, x}, Pointed: &Pointed{Depth: x, Shadow: "hidden"}}
}

// TestNumbersThatJSONLacksAreNull: nothing else of the text changes.
func TestNumbersThatJSONLacksAreNull(t *testing.T) {
	const probe = 12345.5
	like, err := json.Marshal(value(probe))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		got, err := Marshal(value(x))
		if want := bytes.ReplaceAll(like, []byte("12345.5"), []byte("null")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %v\n%s\nwant\n%s", x, err, got, want)
		}
	}
	if got, err := Marshal(value(probe)); err != nil || !bytes.Equal(got, like) {
		t.Errorf("%v\n%s\nwant\n%s", err, got, like)
	}
}

func TestEncodeEndsTheLine(t *testing.T) {
	for indent, want := range map[string]string{"": "{\"x\":null}\n", "  ": "{\n  \"x\": null\n}\n"} {
		var b bytes.Buffer
		if err := Encode(&b, map[string]float64{"x": math.NaN()}, indent); err != nil || b.String() != want {
			t.Errorf("%v, %q, want %q", err, b.String(), want)
		}
	}
	if err := Encode(&bytes.Buffer{}, make(chan int), ""); err == nil {
		t.Error("a channel was written")
	}
}
