package wire

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed98097648/tune/core"
)

// Kind is what a request asks for. All but Call are texts of lines name=value.
type Kind uint32

// The kinds of requests.
const (
	Call     Kind = iota // the record of a call
	Describe             // no text; answered with who the plugin is
	Supports             // kernel=NUMBER and the facts
	Bind                 // kernel=NUMBER, pass=NAME and the facts; answered with handle=NUMBER
	Map                  // region=NUMBER, size=BYTES, writable=BOOL and path=FILE; by RPC only
	Unmap                // region=NUMBER; by RPC only
	Series               // the records of several calls, one behind the other; by the doorbell only
)

// Status is the outcome of a request.
type Status uint32

// The outcomes. The service of package proto has the same numbers.
const (
	OK           Status = iota
	Failed              // the kernel returned an error or panicked
	NotSupported        // the kernel does not support these facts or shapes
	BadCall             // a tensor is missing, out of range or of the wrong form
)

// String returns the name of a status in the protocol.
func (s Status) String() string {
	names := []string{"STATUS_OK", "STATUS_FAILED", "STATUS_NOT_SUPPORTED", "STATUS_BAD_CALL"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("STATUS_%d", uint32(s))
}

// Answer is what comes back for a request.
type Answer struct {
	Status Status
	Text   string
	Busy   time.Duration // that the kernel ran, by the plugin's clock
}

// Outcome is the answer that says how something ended.
func Outcome(err error) Answer {
	if err == nil {
		return Answer{}
	}
	text := strings.ToValidUTF8(err.Error(), "?") // gRPC refuses any other
	switch {
	case errors.Is(err, core.ErrNotSupported):
		return Answer{Status: NotSupported, Text: text}
	case errors.Is(err, core.ErrBadCall):
		return Answer{Status: BadCall, Text: text}
	}
	return Answer{Status: Failed, Text: text}
}

// CutLine takes the first line off a text if it is "name=value".
func CutLine(text, name string) (value, rest string, ok bool) {
	line, rest, _ := strings.Cut(text, "\n")
	if value, ok = strings.CutPrefix(line, name+"="); !ok {
		return "", text, false
	}
	return value, rest, true
}

// Nanoseconds is a duration that a plugin reports, which may be anything.
func Nanoseconds(n uint64) time.Duration { return time.Duration(min(n, uint64(math.MaxInt64))) }
