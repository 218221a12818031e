// Package amount writes numbers for people: sizes, counts and measurements with about
// three digits, the same way wherever tune prints one.
package amount

import (
	"fmt"
	"math"
	"strconv"
)

type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Bytes writes a size: 987 bytes, 1.25 MiB, 64 GiB.
func Bytes[N number](n N) string {
	v := float64(n)
	scale, unit := ByteUnit(v)
	return strconv.FormatFloat(v/scale, 'g', 3, 64) + " " + unit
}

// ByteUnit returns the unit that Bytes writes a size in, for an axis or a column of its
// own, and how many bytes it is.
func ByteUnit(bytes float64) (scale float64, unit string) {
	scale, unit = 1, "bytes"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if math.Abs(bytes/scale) < 999.5 { // which rounds to four digits
			break
		}
		scale, unit = scale*1024, u
	}
	return scale, unit
}

// Count writes a number of things: 987, 12.3k, 4.56M.
func Count[N number](n N) string {
	v, unit := float64(n), ""
	for _, u := range []string{"k", "M", "B", "T"} {
		if math.Abs(v) < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}

// Of writes a number of things with their noun: 1 row, 2 rows.
func Of[N number](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

// Digits writes a measurement: all digits before the point, and three in all if there are
// fewer. It never writes an exponent.
func Digits(v float64) string {
	for i, limit := range []float64{99.95, 9.995, 0.9995} {
		if math.Abs(v) >= limit {
			return fmt.Sprintf("%.*f", i, v)
		}
	}
	return fmt.Sprintf("%.3f", v)
}
