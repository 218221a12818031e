package wire

import (
	"errors"
	"fmt"
	"io"
)

// StreamName is what the two sides of an encrypted connection call the plain stream of requests, in place of HTTP/2
// (ALPN). A plugin that does not know it chooses HTTP/2, and gets its requests by gRPC.
const StreamName = "tune-requests"

// A request on the stream has a head of number, kind and length, and its body; an answer one of the same number,
// status, length and busy time, and its text. One request is under way at a time.
const (
	streamAsk    = 12
	StreamAnswer = 20 // bytes of the head of an answer
)

// MaxStreamAnswer is the longest text of an answer on the stream, in bytes.
const MaxStreamAnswer = 1 << 20

// PutAsk appends a request to b.
func PutAsk(b []byte, number uint32, kind Kind, body []byte) []byte {
	b = Order.AppendUint32(b, number)
	b = Order.AppendUint32(b, uint32(kind))
	b = Order.AppendUint32(b, uint32(len(body)))
	return append(b, body...)
}

// ReadAsk reads the next request into buf, which it returns, longer if need be, and in which the body lies. The
// error is io.EOF if there is none any more.
func ReadAsk(r io.Reader, buf []byte) (number uint32, kind Kind, body, room []byte, err error) {
	var head [streamAsk]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, nil, buf, err
	}
	n := int(Order.Uint32(head[8:]))
	if n < 0 || n > MaxRecord {
		return 0, 0, nil, buf, fmt.Errorf("transport: a request of %d bytes, at most %d fit", n, MaxRecord)
	}
	if n > len(buf) {
		buf = make([]byte, n)
	}
	_, err = io.ReadFull(r, buf[:n])
	return Order.Uint32(head[:]), Kind(Order.Uint32(head[4:])), buf[:n], buf, err
}

// PutAnswer appends the answer to a request to b.
func PutAnswer(b []byte, number uint32, a Answer) []byte {
	text := a.Text[:min(len(a.Text), MaxStreamAnswer)]
	b = Order.AppendUint32(b, number)
	b = Order.AppendUint32(b, uint32(a.Status))
	b = Order.AppendUint32(b, uint32(len(text)))
	b = Order.AppendUint64(b, uint64(a.Busy))
	return append(b, text...)
}

// errLongAnswer is the error of an answer that nobody waits for the end of.
var errLongAnswer = errors.New("transport: an answer is longer than there may be")

// TakeAnswer takes the answer at the beginning of what has been read so far. It is complete if n, its bytes, is not 0.
func TakeAnswer(b []byte) (number uint32, a Answer, n int, err error) {
	if len(b) < StreamAnswer {
		return 0, Answer{}, 0, nil
	}
	length := Order.Uint32(b[8:])
	if length > MaxStreamAnswer {
		return 0, Answer{}, 0, errLongAnswer
	}
	n = StreamAnswer + int(length)
	if len(b) < n {
		return 0, Answer{}, 0, nil
	}
	a = Answer{Status(Order.Uint32(b[4:])), string(b[StreamAnswer:n]), Nanoseconds(Order.Uint64(b[12:]))}
	return Order.Uint32(b), a, n, nil
}
