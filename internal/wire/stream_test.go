package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestRequestsOfTheStreamAreReadAsTheyWereWritten(t *testing.T) {
	bodies := []string{"", "kernel=0\n", strings.Repeat("x", MaxRecord), "again"}
	var b []byte
	for i, body := range bodies {
		b = PutAsk(b, uint32(i+7), Kind(i), []byte(body))
	}
	r := bytes.NewReader(b)
	var room []byte
	for i, want := range bodies {
		number, kind, body, grown, err := ReadAsk(r, room)
		if err != nil || number != uint32(i+7) || kind != Kind(i) || string(body) != want {
			t.Errorf("request %d is read as number %d, kind %d, %d bytes, %v", i, number, kind, len(body), err)
		}
		room = grown
	}
	if _, _, _, _, err := ReadAsk(r, room); err != io.EOF {
		t.Errorf("the end is %v", err)
	}
	if _, _, _, _, err := ReadAsk(bytes.NewReader(b[:5]), room); err != io.ErrUnexpectedEOF {
		t.Errorf("half a head is %v", err)
	}
	long := PutAsk(nil, 1, 1, make([]byte, MaxRecord+1))
	if _, _, _, _, err := ReadAsk(bytes.NewReader(long), room); err == nil {
		t.Error("a body longer than a record is read")
	}
}

func TestAnswersOfTheStreamAreTakenWhenTheyAreComplete(t *testing.T) {
	want := Answer{Status: BadCall, Text: "no such region", Busy: time.Hour}
	b := PutAnswer(nil, 1<<31, want)
	for n := range b {
		if _, _, taken, err := TakeAnswer(b[:n]); taken != 0 || err != nil {
			t.Errorf("of %d bytes %d are taken, %v", n, taken, err)
		}
	}
	number, got, n, err := TakeAnswer(append(b, 1))
	if number != 1<<31 || got != want || n != len(b) || err != nil {
		t.Errorf("number %d, %+v, %d bytes, %v", number, got, n, err)
	}
	cut := PutAnswer(nil, 1, Answer{Text: strings.Repeat("x", MaxStreamAnswer+1)})
	if _, a, _, err := TakeAnswer(cut); len(a.Text) != MaxStreamAnswer || err != nil {
		t.Errorf("a text that is too long has %d bytes, %v", len(a.Text), err)
	}
	Order.PutUint32(cut[8:], MaxStreamAnswer+1)
	if _, _, _, err := TakeAnswer(cut); !errors.Is(err, errLongAnswer) {
		t.Errorf("error %v", err)
	}
}

func FuzzTakeAnswer(f *testing.F) {
	f.Add(PutAnswer(nil, 3, Answer{Text: "handle=1\n"}))
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, b []byte) {
		number, a, n, err := TakeAnswer(b)
		if err == nil && n > 0 && a.Busy != 1<<63-1 && !bytes.Equal(PutAnswer(nil, number, a), b[:n]) {
			t.Errorf("%x is taken as %d %+v", b, number, a)
		}
	})
}
