package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/wire"
)

// TestTheStreamBelievesOneAnswer to the latest request, and nothing else that a plugin says.
func TestTheStreamBelievesOneAnswer(t *testing.T) {
	long := wire.PutAnswer(nil, 5, wire.Answer{})
	wire.Order.PutUint32(long[8:], 1<<31)
	for name, tt := range map[string]struct {
		said   []byte
		broken bool
	}{
		"the answer":            {wire.PutAnswer(nil, 5, wire.Answer{Text: "yes"}), false},
		"of an earlier request": {wire.PutAnswer(nil, 4, wire.Answer{Text: "yes"}), true},
		"one and more":          {append(wire.PutAnswer(nil, 5, wire.Answer{}), 0), true},
		"without end":           {long, true},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			defer there.Close()
			l := &streamLink{conn: tls.Client(here, &tls.Config{ServerName: "localhost"}), number: 5, in: tt.said}
			a, ok := l.wait(time.Minute)
			if !ok || (a.broken != nil) != tt.broken || !tt.broken && a.Text != "yes" {
				t.Errorf("%+v, %v", a, ok)
			}
			if errors.Is(a.broken, net.ErrClosed) {
				t.Errorf("%v is taken for the end of the process", a.broken)
			}
		})
	}
}
