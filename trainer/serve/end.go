package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// What a connection may take.
const (
	headerTime = 10 * time.Second // to send the head of a request
	idleTime   = 2 * time.Minute  // between two
	lastTime   = 5 * time.Second  // to be told that the server has ended
)

// Serve answers on l until ctx ends. Then it takes no more requests, lets those that it has go on for the time of
// grace, cancels them, and returns when they have been told.
func (s *Server) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), grace+lastTime)
	defer cancel()
	defer time.AfterFunc(grace, s.cancel).Stop()
	err := h.Shutdown(last)
	s.cancel()
	if errors.Is(err, context.DeadlineExceeded) {
		err = h.Close()
	}
	<-ended
	return err
}
