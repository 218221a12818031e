// Package clock measures how long something takes. Package time does that as well but on Windows, where its clock
// is the scheduler's, which stands still for up to 16 ms: a call of a kernel would take no time, or that.
package clock

import "time"

// Moment is a point in time of this process, comparable with others of it only.
type Moment time.Duration

// Since returns how much time has gone by.
func Since(m Moment) time.Duration { return Now().Sub(m) }

// Sub returns how much time lies between an earlier moment and this one.
func (m Moment) Sub(earlier Moment) time.Duration { return time.Duration(m - earlier) }
