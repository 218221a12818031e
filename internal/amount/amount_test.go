package amount

import "testing"

func TestSizesAndCountsHaveThreeDigits(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Bytes(0), "0 bytes"}, {Bytes(999), "999 bytes"}, {Bytes(999.6), "0.976 KiB"}, {Bytes(1023), "0.999 KiB"},
		{Bytes(1024), "1 KiB"},
		{Bytes(999.7 * (1 << 20)), "0.976 GiB"}, {Bytes(312 << 20), "312 MiB"}, {Bytes(int64(5<<30 + 1<<28)), "5.25 GiB"},
		{Bytes(-3 << 20), "-3 MiB"},
		{Count(987), "987"}, {Count(999), "999"}, {Count(999.6), "1k"}, {Count(1000), "1k"}, {Count(999_600), "1M"},
		{Count(12_345), "12.3k"},
		{Count(596_049_920), "596M"}, {Count(int64(30_500_000_000)), "30.5B"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0.000", 0.0123: "0.012", 0.9999: "1.00", -1.5: "-1.50", 9.999: "10.0",
		99.96: "100", -12345: "-12345"} {
		if got := Digits(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
}
