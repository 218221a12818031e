package forecast

import (
	"math"
	"testing"
	"time"
)

// TestRanksWaitForWhatTheNetworkCannotHide: by hand, for gradients of 400 MB.
func TestRanksWaitForWhatTheNetworkCannotHide(t *testing.T) {
	f := &Forecast{Trainable: 100e6, Tokens: 1000, Memory: []Part{{"weights", 2e9}}}
	const moments = 800e6
	buckets := math.Ceil(400e6 / float64(bucket))
	for _, tt := range []struct {
		name  string
		n     int
		r     Ranks
		waits float64
		bytes int64
	}{
		{"one", 1, Ranks{Step: time.Second, Bandwidth: 1e9, Element: 4}, 0, 2e9},
		// 0.2 s there and 0.2 s back are hidden behind 0.54 s, but for the last of 96 buckets.
		{"two, fast", 2, Ranks{Step: time.Second, Bandwidth: 1e9, Element: 4}, 2 * (0.2 + buckets*50e-6) / buckets,
			2e9 + 6*bucket},
		{"two, slow", 2, Ranks{Step: time.Second, Bandwidth: 1e8, Element: 4}, 4 + 2*buckets*50e-6 - 0.54, 2e9 + 6*bucket},
		{"two, slow, half", 2, Ranks{Step: time.Second, Bandwidth: 1e8, Element: 2}, 2 + 2*buckets*50e-6 - 0.54,
			2e9 + 6*bucket},
		{"four, shared out", 4, Ranks{Step: time.Second, Bandwidth: 1e8, Element: 4, Shard: true},
			3 + 2*buckets*50e-6 - 0.54 + 3 + 2*buckets*50e-6, 2e9 + 6*bucket - 600e6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := f.Ranks(tt.n, tt.r, moments)
			if math.Abs(got.Waits-tt.waits) > 1e-9 || got.Bytes != tt.bytes {
				t.Errorf("waits %g s with %d bytes, want %g and %d", got.Waits, got.Bytes, tt.waits, tt.bytes)
			}
			if want := float64(tt.n) * 1000 / (1 + tt.waits); math.Abs(got.Tokens-want) > 1e-6*want {
				t.Errorf("%g tokens/s, want %g", got.Tokens, want)
			}
		})
	}
}
