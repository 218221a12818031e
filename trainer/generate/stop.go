package generate

import "strings"

// stopper looks for texts that end a generation, and holds back what may be the
// beginning of one.
type stopper struct {
	stops   []string
	pending string
}

// push adds text and returns what is certain to come before any stop, and whether one was
// found; the text of the stop and what follows it is lost.
func (s *stopper) push(text string) (certain string, found bool) {
	s.pending += text
	at := -1
	for _, stop := range s.stops {
		if i := strings.Index(s.pending, stop); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at >= 0 {
		certain, s.pending = s.pending[:at], ""
		return certain, true
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.pending)); n > keep; n-- {
			if strings.HasSuffix(s.pending, stop[:n]) {
				keep = n
			}
		}
	}
	certain = s.pending[:len(s.pending)-keep]
	s.pending = s.pending[len(certain):]
	return certain, false
}

// rest returns what was held back.
func (s *stopper) rest() string {
	rest := s.pending
	s.pending = ""
	return rest
}
