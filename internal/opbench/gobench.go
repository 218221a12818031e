package opbench

import (
	"fmt"
	"runtime"
	"strings"
)

// GoBench returns the result in the format of Go benchmarks, for benchstat: each round of
// each row is a line.
func (r *Result) GoBench() string {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, r.CPU)
	for _, row := range r.Rows {
		name := fmt.Sprintf("BenchmarkKernel/kernel=%s/op=%s/shape=%s/pass=%s/side=%s-%d",
			row.Kernel, row.Op, part(row.Shape), row.Pass, row.Side, r.Ceilings.Threads)
		for _, ns := range row.ns {
			fmt.Fprintf(&b, "%s\t%d\t%.1f ns/op\t%.2f MB/s", name, row.Calls, ns, 1e3*float64(row.Bytes)/ns)
			if row.Products > 0 {
				fmt.Fprintf(&b, "\t%.3f GFLOP/s", row.Products/ns)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// part makes a name one part of a benchmark's: no blanks, which end the name, and no
// slashes or dashes, which end the part and begin the number of threads.
func part(name string) string {
	return strings.NewReplacer(" ", "_", "/", ":", "-", "").Replace(name)
}
