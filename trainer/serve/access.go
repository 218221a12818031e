package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// keyed asks for the key, if there is one.
func (s *Server) keyed(next func(w http.ResponseWriter, r *http.Request) error) func(http.ResponseWriter,
	*http.Request) error {
	want := sha256.Sum256([]byte(s.Key))
	return func(w http.ResponseWriter, r *http.Request) error {
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		// Sums have one length, so that the comparison tells nothing of the key's.
		have := sha256.Sum256([]byte(strings.TrimSpace(key)))
		right := strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(have[:], want[:]) == 1
		if s.Key != "" && !right {
			return &apiError{status: http.StatusUnauthorized, Kind: invalidRequest, Code: new("invalid_api_key"),
				Message: "the API key is missing or wrong: send the header Authorization: Bearer KEY"}
		}
		return next(w, r)
	}
}

// guarded keeps pages of other origins out, which a browser would let ask for the one in front of it, unless they
// are allowed, and answers the question of a browser whether they are.
func (s *Server) guarded(next http.Handler) (http.Handler, error) {
	anyOrigin := slices.Contains(s.Origins, "*")
	var origins []string
	forgery := http.NewCrossOriginProtection()
	for _, o := range s.Origins {
		if o == "*" {
			continue
		}
		o = strings.ToLower(o) // as browsers write it
		origins = append(origins, o)
		if err := forgery.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("serve: the origin %q: %w", o, err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isHost(r.Host) {
			writeError(w, forbidden("the server is not called %q: name it by its address, or have it ask for a key", r.Host))
			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		origin := r.Header.Get("Origin")
		allowed := anyOrigin || slices.Contains(origins, origin)
		h.Add("Vary", "Origin")
		if origin != "" && allowed {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
		}
		if r.Method == http.MethodOptions {
			if allowed {
				h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
				h.Set("Access-Control-Allow-Headers", "*, Authorization, "+
					strings.Join(r.Header.Values("Access-Control-Request-Headers"), ", "))
				h.Set("Access-Control-Max-Age", "600")
			}
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if err := forgery.Check(r); err != nil && !anyOrigin {
			writeError(w, forbidden("a page of %s may not ask this server: start it with that origin allowed", origin))
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

func forbidden(format string, args ...any) error {
	e := badRequest("", format, args...)
	e.status, e.Kind = http.StatusForbidden, "permission_error"
	return e
}

// isHost reports whether the server may be called so. A name that somebody else's name server gives to this
// machine would make a page of theirs one of this server's; a program of HTTP/1.0 may give none.
func (s *Server) isHost(host string) bool {
	if s.Hosts == nil {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		slices.ContainsFunc(s.Hosts, func(host string) bool { return strings.EqualFold(host, name) })
}
