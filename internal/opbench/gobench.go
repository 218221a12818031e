package opbench

import (
	"fmt"
	"io"
	"runtime"
	"strings"
)

// WriteGo writes the result in the format of Go benchmarks, for benchstat: each round of
// each row is a line.
func (r *Result) WriteGo(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "goos: %s\ngoarch: %s\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, r.CPU); err != nil {
		return err
	}
	for _, row := range r.Rows {
		name := fmt.Sprintf("BenchmarkKernel/kernel=%s/op=%s/shape=%s/pass=%s/side=%s-%d",
			row.Kernel, row.Op, part(row.Shape), row.Pass, row.Side, r.Ceilings.Threads)
		for _, ns := range row.ns {
			line := fmt.Sprintf("%s\t%d\t%.1f ns/op\t%.2f MB/s", name, row.Calls, ns, 1e3*float64(row.Bytes)/ns)
			if row.Products > 0 {
				line += fmt.Sprintf("\t%.3f GFLOP/s", row.Products/ns)
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// part makes a name one part of a benchmark's: no blanks, which end the name, and no
// slashes or dashes, which end the part and begin the number of threads.
func part(name string) string {
	return strings.NewReplacer(" ", "_", "/", ":", "-", "").Replace(name)
}
