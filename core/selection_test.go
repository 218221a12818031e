package core_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func TestParseSelection(t *testing.T) {
	tests := []struct {
		in   string
		want core.Selection
	}{
		{"auto", core.Selection{Auto: true}},
		{"all", core.Selection{All: true}},
		{"none", core.Selection{}},
		{"rope", core.Selection{Names: []string{"rope"}}},
		{"rope,norm", core.Selection{Names: []string{"rope", "norm"}}},
		{"rope, rope", core.Selection{Names: []string{"rope"}}},
		{"auto,-rope", core.Selection{Auto: true, Not: []string{"rope"}}},
		{" all , -rope , -norm ", core.Selection{All: true, Not: []string{"rope", "norm"}}},
		{"from:runs/a, b", core.Selection{From: "runs/a, b"}},
		{"-rope,auto,norm", core.Selection{Auto: true, Not: []string{"rope"}, Names: []string{"norm"}}},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := core.ParseSelection(tt.in)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseSelectionRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "empty name"},
		{"auto,", "empty name"},
		{"rope,,norm", "empty name"},
		{"auto,-", "empty name"},
		{"auto,- ", "empty name"},
		{"none,rope", "none stands alone"},
		{"none,-rope", "none stands alone"},
		{"auto,all", "exclude each other"},
		{"-rope", "auto,-rope"},
		{"norm,-rope", "auto,-rope"},
		{"from:", "names no run"},
		{"auto,from:out", "from:out stands alone"},
		{"auto,rope,-rope", "both names and excludes rope"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			_, err := core.ParseSelection(tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

// Whatever is accepted means one thing only, and says the same when written out again.
func FuzzParseSelection(f *testing.F) {
	for _, s := range []string{"auto", "all", "none", "a,b", "auto,-a", "-a", "auto,a,-a", ",", "- a,all", "auto,--a",
		"none,none"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sel, err := core.ParseSelection(s)
		if err != nil {
			return
		}
		if sel.Auto && sel.All {
			t.Error("both auto and all")
		}
		if sel.Not != nil && !sel.Auto && !sel.All {
			t.Error("exclusions from nothing")
		}
		for _, name := range sel.Names {
			if name == "" || slices.Contains(sel.Not, name) {
				t.Errorf("name %q is empty or excluded", name)
			}
		}
		again, err := core.ParseSelection(format(sel))
		if err != nil || !reflect.DeepEqual(sel, again) {
			t.Errorf("%q was read as %+v; written as %q it is %+v, %v", s, sel, format(sel), again, err)
		}
	})
}

func format(sel core.Selection) string {
	words := slices.Clone(sel.Names)
	if sel.Auto {
		words = append(words, "auto")
	}
	if sel.All {
		words = append(words, "all")
	}
	for _, name := range sel.Not {
		words = append(words, "-"+name)
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, ",")
}
