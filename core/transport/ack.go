package transport

import "errors"

// ack says whether a plugin could map a region: one byte, 0 or 1, and the text of the
// error.
type ack struct{ err error }

const ackSize = 512

func formatAck(err error) []byte {
	if err == nil {
		return []byte{0}
	}
	text := err.Error()
	return append([]byte{1}, text[:min(len(text), ackSize-1)]...)
}

func parseAck(b []byte) ack {
	if len(b) == 1 && b[0] == 0 {
		return ack{}
	}
	return ack{errors.New(string(b[1:]))}
}
