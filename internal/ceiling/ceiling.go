// Package ceiling measures what a machine can do at best with the arithmetic of package
// simd: how fast memory can be read and written, and how fast matrices can be
// multiplied. Everything else is judged against these two, by the roofline model of
// Williams, Waterman and Patterson (2009): an operation takes at least as long as its
// bytes take at the bandwidth of memory, and as its arithmetic takes at the rate of
// matrix products.
package ceiling

import "time"

// Ceilings are the limits of a machine.
type Ceilings struct {
	Threads int `json:"threads"` // of the first two figures
	// Bandwidth is that of memory, in bytes per second, counted as the STREAM benchmark
	// counts it: the bytes that a loop reads and writes, without those that the processor
	// reads only to overwrite them. So a loop that overwrites what it has read, and one that
	// stores past the cache, can do better by up to a third.
	Bandwidth float64 `json:"bandwidth_bytes_per_s"`
	// Products is the rate of a float32 matrix product, in operations per second: a
	// multiplication and an addition are two.
	Products float64 `json:"products_flop_per_s"`
	// Bandwidth1 and Products1 are the same with one thread.
	Bandwidth1 float64 `json:"bandwidth_1_thread_bytes_per_s"`
	Products1  float64 `json:"products_1_thread_flop_per_s"`
}

// Best returns the higher of each of two measurements of one machine: a busy moment makes
// a ceiling too low, and nothing makes it too high.
func (c Ceilings) Best(d Ceilings) Ceilings {
	return Ceilings{max(c.Threads, d.Threads), max(c.Bandwidth, d.Bandwidth), max(c.Products, d.Products),
		max(c.Bandwidth1, d.Bandwidth1), max(c.Products1, d.Products1)}
}

// Worst returns the lower of each of two measurements.
func (c Ceilings) Worst(d Ceilings) Ceilings {
	return Ceilings{min(c.Threads, d.Threads), min(c.Bandwidth, d.Bandwidth), min(c.Products, d.Products),
		min(c.Bandwidth1, d.Bandwidth1), min(c.Products1, d.Products1)}
}

// Floor returns the least time in which this machine moves so many bytes and does so
// many operations, and whether the arithmetic sets it rather than memory. Less than that
// is possible where data come from a cache.
func (c Ceilings) Floor(bytes, flops float64) (d time.Duration, compute bool) {
	move, calculate := ratio(bytes, c.Bandwidth), ratio(flops, c.Products)
	return time.Duration(max(move, calculate) * float64(time.Second)), calculate > move
}

// ratio is a/b, 0 where b was not measured.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}
