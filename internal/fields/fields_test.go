package fields

import (
	"maps"
	"reflect"
	"testing"
)

type inner struct {
	Keep int `json:"keep,omitempty"`
}

type outer struct {
	Steps  int   `json:"steps"`
	Inner  inner `json:"checkpoints,omitzero"`
	Force  bool  `json:"-"`
	hidden bool
}

func TestFieldsAreNamedByTheTypeThatHasThem(t *testing.T) {
	want := map[string]string{"steps": "fields.outer.Steps", "checkpoints.keep": "fields.inner.Keep"}
	if got := Names(reflect.TypeFor[outer]()); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	_ = outer{}.hidden
}
