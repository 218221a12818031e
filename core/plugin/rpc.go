package plugin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/seed98097648/tune/internal/wire"
)

// Names that go-plugin and the host's gRPC service have: their own libraries would be most
// of a plugin's program, for three messages.
const (
	envSocketDir = "PLUGIN_UNIX_SOCKET_DIR" // where the socket goes
	pathAsk      = "/tune.kernel.v1.Kernels/Ask"
	pathShutdown = "/plugin.GRPCController/Shutdown"
)

// socketName cannot be the name of a plugin: the folder has a link called so, too.
const socketName = ".requests"

// answerRPC answers gRPC, and requests on the plain stream, which comes to the same socket: until
// the host says that it is enough, or is gone.
func answerRPC(s *server) error {
	config, certificate, err := encryption([]byte(os.Getenv(wire.EnvCertificate)))
	if err != nil {
		return err
	}
	listener, err := listen()
	if err != nil {
		return fmt.Errorf("transport: socket for requests: %w", err)
	}
	enough := make(chan struct{}, 1)
	config.NextProtos = []string{wire.StreamName}
	config.DynamicRecordSizingDisabled = true // an answer on the stream is one write
	web := &http.Server{Handler: handler(s, enough), TLSConfig: config, Protocols: &http.Protocols{},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){
			wire.StreamName: func(_ *http.Server, c *tls.Conn, _ http.Handler) { s.answerStream(c) },
		}}
	web.Protocols.SetHTTP2(true)
	failed := make(chan error, 1)
	go func() { failed <- web.ServeTLS(listener, "", "") }()
	s.greet(listener.Addr().Network(), listener.Addr().String(), wire.GreetRPC, certificate)
	select {
	case err = <-failed:
		return fmt.Errorf("transport: answer requests: %w", err)
	case <-enough:
	}
	// What cannot be ended in time ends with the process.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = web.Shutdown(ctx)
	return nil
}

// listen opens a socket that only processes of this machine can find, and of this user where
// the host has made a folder for it.
func listen() (net.Listener, error) {
	if runtime.GOOS == "windows" {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return net.Listen("unix", filepath.Join(os.Getenv(envSocketDir), socketName))
}

// encryption makes a certificate for this one connection, and accepts nobody's but that of
// the host, which is given as PEM. The text is what the host gets.
func encryption(host []byte) (*tls.Config, string, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(host) {
		return nil, "", fmt.Errorf("transport: %s holds no certificate of the host", wire.EnvCertificate)
	}
	own, err := wire.NewCertificate(x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, "", err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
			Certificates: []tls.Certificate{own}},
		base64.RawStdEncoding.EncodeToString(own.Certificate[0]), nil
}

// handler answers gRPC's unary calls, which are requests of HTTP/2: a message each way, five
// bytes before it, and the status in a trailer. Services of go-plugin that nobody needs here
// are unimplemented, as it allows.
func handler(s *server, enough chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		var reply []byte
		switch r.URL.Path {
		case pathAsk:
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2*wire.MaxRecord))
			var kind wire.Kind
			var text []byte
			if err == nil {
				kind, text, err = readRequest(body)
			}
			switch {
			case err != nil:
				reply = answerMessage(wire.Outcome(err))
			case kind == wire.Call:
				reply = answerMessage(s.called(context.Background(), text))
			default:
				reply = answerMessage(s.asked(kind, string(text)))
			}
		case pathShutdown:
			defer func() {
				select {
				case enough <- struct{}{}:
				default: // it was said already
				}
			}()
		default:
			w.Header().Set("Grpc-Status", "12") // unimplemented
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		// An error means that the host is gone.
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(reply))), reply...))
		w.Header().Set("Grpc-Status", "0")
	})
}

// errRequest is the error of a request that is none of the service's.
var errRequest = errors.New("transport: a request has another form than kernel.proto")

// readRequest reads a message Request of kernel.proto, with gRPC's five bytes before it.
func readRequest(b []byte) (kind wire.Kind, text []byte, err error) {
	if len(b) < 5 || b[0] != 0 {
		return 0, nil, errRequest
	}
	for b = b[5:]; len(b) > 0; {
		tag, n := binary.Uvarint(b)
		value, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 {
			return 0, nil, errRequest
		}
		b = b[n+m:]
		switch {
		case tag == 1<<3:
			kind = wire.Kind(value)
		case tag == 2<<3|2 && value <= uint64(len(b)):
			text, b = b[:value], b[value:]
		default:
			return 0, nil, errRequest
		}
	}
	return kind, text, nil
}

// answerMessage is the message Answer of kernel.proto.
func answerMessage(a wire.Answer) []byte {
	b := binary.AppendUvarint([]byte{1 << 3}, uint64(a.Status))
	b = binary.AppendUvarint(append(b, 2<<3|2), uint64(len(a.Text)))
	b = append(b, a.Text...)
	return binary.AppendUvarint(append(b, 3<<3), uint64(a.Busy))
}
