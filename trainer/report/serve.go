package report

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server shows a live page to browsers. It only ever reads.
//
// Who cannot run programs on this machine, but gets its user to open a page of his, cannot
// read from it: requests name the host that they mean, and one that is neither an address
// nor a name of this machine is refused, so that a name which is made to point here does
// not help. With a token, requests need that as well.
type Server struct {
	// URL is where the page is, with the token if there is one.
	URL string

	live  *Live
	http  *http.Server
	token string
	names []string // of the host, besides addresses
	port  string
	done  sync.WaitGroup
}

// ErrNeedsToken is wrapped by the error of Listen for an address that others can reach.
var ErrNeedsToken = errors.New("other machines can reach it, and there is no token")

// Listen starts to serve the page at an address: HOST:PORT, or a port alone, which means
// this machine only, as 127.0.0.1 does. An address that others can reach needs a token. The
// caller closes the server.
func Listen(ctx context.Context, address, token string, live *Live) (*Server, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s is no address: %w; give a port, or HOST:PORT", address, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if local, err := isLocal(ctx, host); err != nil {
		return nil, err
	} else if !local && token == "" {
		return nil, fmt.Errorf("%s: %w", host, ErrNeedsToken)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("%w; choose another port, or 0 for any that is free", err)
	}
	// What the name stood for may have changed meanwhile.
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() && token == "" {
		return nil, errors.Join(fmt.Errorf("%s: %w", l.Addr(), ErrNeedsToken), l.Close())
	}
	_, port, _ = net.SplitHostPort(l.Addr().String()) // which the system has written
	s := &Server{live: live, token: token, port: port, names: []string{"localhost", strings.ToLower(host)}}
	if name, err := os.Hostname(); err == nil {
		s.names = append(s.names, strings.ToLower(name))
	}
	s.URL = s.url(host)
	const short, long, head = 10 * time.Second, time.Minute, 16 << 10
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: short, ReadTimeout: short, WriteTimeout: long,
		IdleTimeout: long, MaxHeaderBytes: head,
		ErrorLog: log.New(io.Discard, "", 0)}
	s.done.Go(func() { s.http.Serve(l) }) // which ends with Close, and with no other error that matters to a run
	return s, nil
}

// isLocal reports whether every address of a host is this machine's alone.
func isLocal(ctx context.Context, host string) (bool, error) {
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return false, fmt.Errorf("%w; give a port, or HOST:PORT with an address of this machine", err)
	}
	for _, a := range addresses {
		if !a.IP.IsLoopback() {
			return false, nil
		}
	}
	return len(addresses) > 0, nil
}

// url is what a browser on this machine opens, or on another one if the page is for all.
func (s *Server) url(host string) string {
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = s.names[len(s.names)-1]
	}
	u := "http://" + net.JoinHostPort(host, s.port) + "/"
	if s.token != "" {
		u += "?token=" + url.QueryEscape(s.token)
	}
	return u
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "frame-ancestors 'none'") // the page has the rest
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	switch {
	case !s.isHost(r.Host):
		http.Error(w, "This page is not served under that name. Open it by its address, or have it served under that name.",
			http.StatusForbidden)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "This page can only be read.", http.StatusMethodNotAllowed)
	case s.token != "" && !s.admits(r):
		h.Set("WWW-Authenticate", "Bearer")
		http.Error(w, "This page needs the token that the run was started with: add ?token=TOKEN to the address.",
			http.StatusUnauthorized)
	case s.token != "" && r.URL.Query().Has("token"):
		// From here on a cookie has it, and the address bar does not.
		http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: s.seal(), Path: "/", HttpOnly: true,
			SameSite: http.SameSiteLaxMode})
		path := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/")} // with two slashes it would be another host's
		http.Redirect(w, r, path.EscapedPath(), http.StatusSeeOther)
	default:
		s.live.ServeHTTP(w, r)
	}
}

// isHost reports whether a request means this machine: by an address, which nobody else can
// make a name of, or by a name of it.
func (s *Server) isHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	return net.ParseIP(host) != nil || slices.Contains(s.names, host)
}

// admits reports whether a request has the token: as a parameter, in the Authorization
// header, or in the cookie that the parameter has left.
func (s *Server) admits(r *http.Request) bool {
	for _, given := range r.URL.Query()["token"] {
		if same(given, s.token) {
			return true
		}
	}
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && same(given, s.token) {
		return true
	}
	c, err := r.Cookie(s.cookie())
	return err == nil && same(c.Value, s.seal())
}

// same compares in a time that does not depend on the texts, nor on their lengths.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// cookie is the name of the cookie. Browsers do not tell ports apart.
func (s *Server) cookie() string { return "tune-" + s.port }

// seal is what the cookie holds: proof of the token, in letters that a cookie may have.
func (s *Server) seal() string {
	sum := sha256.Sum256([]byte("tune live page " + s.token))
	return hex.EncodeToString(sum[:])
}

// Close stops serving, after whoever looks on has seen the end of the run.
func (s *Server) Close() error {
	s.live.Linger()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.http.Close() // connections that are slow are not waited for
	}
	s.done.Wait()
	return nil
}
