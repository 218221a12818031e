package dynlib

import "testing"

func TestDescribeKeepsTheEndOfThePath(t *testing.T) {
	for _, tt := range []struct {
		what, mark, path string
		most             int
		want             string
	}{
		{"BLAS 1", "", "/lib/libblas.so", 40, "BLAS 1, /lib/libblas.so"},
		{"BLAS 1", "", "/lib/libblas.so", 23, "BLAS 1, /lib/libblas.so"},
		{"BLAS 1", "", "/usr/lib/libblas.so", 22, "BLAS 1, .../libblas.so"},
		{"BLAS with many words", "", "/lib/libblas.so", 10, "BLAS with "},
		{"BLAS 1", "0a1b2c3d", "/lib/libblas.so", 40, "BLAS 1, 0a1b2c3d, /lib/libblas.so"},
	} {
		if got := Describe(tt.what, tt.mark, tt.path, tt.most); got != tt.want || len(got) > tt.most {
			t.Errorf("%q, %q in %d bytes: %q, want %q", tt.what, tt.path, tt.most, got, tt.want)
		}
	}
}
