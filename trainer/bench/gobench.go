package bench

import (
	"fmt"
	"strings"
	"unicode"
)

// GoBench returns every measured step as a line of the Go benchmark format
// (golang.org/design/14313-benchmark-format), for tools such as benchstat, which find
// the spread themselves:
//
//	benchstat -col /kernels result.txt
func (r *Result) GoBench() string {
	var b strings.Builder
	m, c := r.Machine, r.Config
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: github.com/seed98097648/tune\ncpu: %s\n", m.OS, m.Arch, m.CPU)
	for _, v := range r.Runs {
		name := fmt.Sprintf("BenchmarkStep/model=%s/batch=%d/seq=%d/kernels=%s/threads=%d-%d",
			word(c.ModelType), c.Batch, c.Seq, word(v.Kernels), v.Threads, m.Cores)
		for _, s := range v.Steps {
			fmt.Fprintf(&b, "%s\t1\t%.0f ns/op\t%.0f forward-ns/op\t%.0f backward-ns/op\t%.0f optimizer-ns/op\t%.6g "+
				"tokens/s\t%d planned-bytes",
				name, 1e6*s.Whole, 1e6*s.Forward, 1e6*s.Backward, 1e6*s.Optimizer,
				1000*float64(c.Batch*c.Seq*max(c.Accumulate, 1))/max(s.Whole, 1e-9), v.Memory.Total)
			if r.Floor.MS > 0 {
				fmt.Fprintf(&b, "\t%.4f step/floor", s.Whole/r.Floor.MS)
			}
			if v.PeakRSS > 0 {
				fmt.Fprintf(&b, "\t%d peak-bytes", v.PeakRSS)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// word makes a string one field of a benchmark's name.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, s)
}
