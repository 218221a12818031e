package progress

import (
	"fmt"
	"time"
)

// countEvery is how long a count is silent where there is no terminal.
const countEvery = 5 * time.Second

// Count shows how much is done of something that is no training run: a bar on a terminal that is wide enough, a line
// now and then elsewhere. Call set with the number that is done, and end when no more will be.
func (p *Printer) Count(total int, what string) (set func(done int), end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if roomForBar(p.notes) {
		p.bar = newBar(total, p.notes)
		p.shown = p.bar
		p.bar.Describe(what)
	}
	last := time.Now()
	set = func(done int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.bar != nil:
			if p.draws(p.bar) {
				p.bar.Set(done) // what it has to complain about is the terminal
			}
		case time.Since(last) > countEvery:
			last = time.Now()
			fmt.Fprintf(p.notes, "tune: %d of %d %s\n", done, total, what)
		}
	}
	return set, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hideBar()
		p.bar = nil
	}
}
