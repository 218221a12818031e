package bench

import (
	"regexp"
	"strings"
	"testing"
)

func TestGoBenchHasALineForEachStep(t *testing.T) {
	r := sample()
	r.Runs[1].Kernels = "auto,-npu_fused_rope"
	// A benchmark's line is its name, a count, and pairs of a number and a unit.
	format := regexp.MustCompile(`^Benchmark[A-Z]\S*\t\d+(\t[0-9.]+ \S+)+$`)
	lines := 0
	for line := range strings.Lines(r.GoBench()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		lines++
		if !format.MatchString(line) {
			t.Errorf("no line of a benchmark: %q", line)
		}
	}
	if lines != 40 {
		t.Errorf("%d lines, want one for each of 10 steps of 4 variants", lines)
	}
	for _, want := range []string{
		"goos: linux\ngoarch: amd64\npkg: ", "cpu: AMD EPYC\n",
		"BenchmarkStep/model=llama/batch=4/seq=256/kernels=none/threads=2-2\t1\t2000000000 ns/op\t600000000 " +
			"forward-ns/op\t" +
			"1200000000 backward-ns/op\t200000000 optimizer-ns/op\t512 tokens/s\t5368709120 planned-bytes\t2.2222 " +
			"step/floor\t6442450944 peak-bytes\n",
		"/kernels=auto,-npu_fused_rope/threads=2-2\t1\t1000000000 ns/op",
	} {
		if !strings.Contains(r.GoBench(), want) {
			t.Errorf("it lacks %q:\n%s", want, r.GoBench())
		}
	}
}
