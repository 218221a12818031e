package plugin

import (
	"bufio"
	"context"
	"io"

	"github.com/seed98097648/tune/internal/wire"
)

// answerStream answers the requests of a plain stream until it ends, which is no error.
func (s *server) answerStream(c io.ReadWriter) {
	in := bufio.NewReader(c)
	var room, out []byte
	for {
		number, kind, body, grown, err := wire.ReadAsk(in, room)
		if err != nil {
			return
		}
		room = grown
		var a wire.Answer
		if kind == wire.Call {
			a = s.called(context.Background(), body)
		} else {
			a = s.asked(kind, string(body))
		}
		out = wire.PutAnswer(out[:0], number, a)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
