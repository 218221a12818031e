package opbench

import (
	"math"
	"slices"
)

// Stat describes repeated measurements of one thing.
type Stat struct {
	Median float64 `json:"median"`
	P10    float64 `json:"p10"`
	P90    float64 `json:"p90"`
}

// NewStat needs at least one value, in any order.
func NewStat(values []float64) Stat {
	sorted := slices.Sorted(slices.Values(values))
	return Stat{Median: percentile(sorted, 0.5), P10: percentile(sorted, 0.1), P90: percentile(sorted, 0.9)}
}

// percentile returns the value below which the part q of the sorted values lies, with
// linear interpolation.
func percentile(sorted []float64, q float64) float64 {
	below, part := math.Modf(q * float64(len(sorted)-1))
	i := int(below)
	return sorted[i] + part*(sorted[min(i+1, len(sorted)-1)]-sorted[i])
}

// scaled returns the values times by.
func scaled(values []float64, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = by * v
	}
	return out
}
