//go:build !windows

package clock

import "time"

var start = time.Now()

// Now returns this moment.
func Now() Moment { return Moment(time.Since(start)) }
