package cpu

import (
	"strings"
	"testing"
)

func TestModelName(t *testing.T) {
	tests := []struct{ name, cpuinfo, want string }{
		{"the first of several",
			"processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast CPU: v2 @ 3 GHz\n\nmodel name\t: " +
				"other\n", "Fast CPU: v2 @ 3 GHz"},
		{"a machine that gives none", "processor\t: 0\nBogoMIPS\t: 50.00\n", ""},
		{"an empty file", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := modelName(strings.NewReader(tt.cpuinfo)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
