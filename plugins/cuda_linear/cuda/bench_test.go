package cuda

import (
	"fmt"
	"testing"
)

// BenchmarkCopies is of a matrix to the device, and of one from it, of some MiB each.
func BenchmarkCopies(b *testing.B) {
	d := device(b)
	for _, mib := range []int{1, 8, 64, 512} {
		elems := mib << 18
		v := random(1, elems)
		for _, direction := range []string{"to", "from"} {
			b.Run(fmt.Sprintf("%s/%dMiB", direction, mib), func(b *testing.B) {
				b.SetBytes(int64(4 * elems))
				for b.Loop() {
					if err := d.Do(func(p *Pass) {
						if direction == "to" {
							p.Load(1, elems, source(v))
						} else {
							p.Store(p.New(1, elems), 1, target(v))
						}
					}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkMultiply is of products alone, ten in a pass, with their operands on the device.
func BenchmarkMultiply(b *testing.B) {
	d := device(b)
	for _, s := range []struct{ m, n, k int }{{1024, 512, 512}, {1024, 3072, 512}, {512, 3072, 1024},
		{4096, 4096, 4096}} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k), func(b *testing.B) {
			x, y := random(1, s.m*s.k), random(2, s.k*s.n)
			const each = 10
			for b.Loop() {
				if err := d.Do(func(p *Pass) {
					q := Product{M: s.m, N: s.n, K: s.k, A: p.Load(s.m, s.k, source(x)), B: p.Load(s.k, s.n, source(y)),
						C: p.New(s.m, s.n), Alpha: 1}
					for range each {
						p.Multiply(q)
					}
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(2*each*s.m*s.n*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
