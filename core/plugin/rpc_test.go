package plugin

import (
	"bytes"
	"encoding/binary"
	"net/http/httptest"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/wire"
)

// framed is a message with what gRPC puts before it.
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// TestMessagesAreThoseOfTheService holds what is written by hand here against the code that
// is generated of kernel.proto, which the host uses.
func TestMessagesAreThoseOfTheService(t *testing.T) {
	for _, want := range []*proto.Request{{}, {Kind: 1}, {Kind: 3, Body: []byte("kernel=0\n")},
		{Body: make([]byte, 1000)}} {
		b, err := protobuf.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if kind, text, err := readRequest(framed(b)); err != nil || uint32(kind) != want.Kind ||
			string(text) != string(want.Body) {
			t.Errorf("%v was read as %d %q, %v", want, kind, text, err)
		}
	}
	for _, want := range []wire.Answer{{}, {Status: wire.BadCall, Text: "no"}, {Busy: time.Hour},
		{Text: string(make([]byte, 300))}} {
		var got proto.Answer
		if err := protobuf.Unmarshal(answerMessage(want), &got); err != nil {
			t.Fatal(err)
		}
		if a := (wire.Answer{Status: wire.Status(got.Status), Text: got.Text, Busy: time.Duration(got.BusyNs)}); a != want {
			t.Errorf("%+v was read as %+v", want, a)
		}
	}
}

// TestRequestsByRPC: one that cannot be read has an answer too, and a service that is not there a status.
func TestRequestsByRPC(t *testing.T) {
	describe, err := protobuf.Marshal(&proto.Request{Kind: uint32(wire.Describe)})
	if err != nil {
		t.Fatal(err)
	}
	h := handler(newServer(Offer{"test", "1", []core.Kernel{reference.Kernel(core.RMSNorm)}}), nil)
	for name, tt := range map[string]struct {
		path string
		body []byte
		want wire.Status
		grpc string
	}{
		"a question":      {pathAsk, framed(describe), wire.OK, "0"},
		"nothing":         {pathAsk, nil, wire.Failed, "0"},
		"another form":    {pathAsk, framed([]byte{0xff}), wire.Failed, "0"},
		"too much":        {pathAsk, framed(make([]byte, 2*wire.MaxRecord)), wire.Failed, "0"},
		"another service": {"/grpc.health.v1.Health/Check", framed(nil), 0, "12"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", tt.path, bytes.NewReader(tt.body)))
		if got := w.Result(); got.Header.Get("Grpc-Status") != tt.grpc && got.Trailer.Get("Grpc-Status") != tt.grpc {
			t.Errorf("%s: gRPC's status is in %v and %v, want %s", name, got.Header, got.Trailer, tt.grpc)
		}
		var a proto.Answer
		if body := w.Body.Bytes(); tt.grpc != "0" {
			continue
		} else if err := protobuf.Unmarshal(body[5:], &a); err != nil || wire.Status(a.Status) != tt.want || a.Text == "" {
			t.Errorf("%s: %v, %v; want %v and a text", name, &a, err, tt.want)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	b, err := protobuf.Marshal(&proto.Request{Kind: 2, Body: []byte("kernel=0\n")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(framed(b))
	f.Add([]byte{0, 0, 0, 0, 0, 2<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		kind, text, err := readRequest(body)
		if err != nil {
			return
		}
		var want proto.Request
		if err := protobuf.Unmarshal(body[5:], &want); err != nil {
			return // another wire type of a field, or one of group
		}
		if uint32(kind) != want.Kind || string(text) != string(want.Body) {
			t.Errorf("%x was read as %d %q, want %v", body, kind, text, &want)
		}
	})
}
