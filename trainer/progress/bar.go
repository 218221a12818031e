package progress

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer"
)

const (
	redraw  = 100 * time.Millisecond // by the bar's own throttle, count and loss were of different steps
	fewest  = 60                     // columns that a bar needs: it is not drawn over lines that the terminal has broken
	barWide = 20
)

func newBar(steps int, w io.Writer) *progressbar.ProgressBar {
	return progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(barWide),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionShowDescriptionAtLineEnd(),
		// Without, as many spaces clear the line as its longest had, too many for a terminal that has become narrower.
		progressbar.OptionUseANSICodes(Escapes(w) && runtime.GOOS != "windows"),
		progressbar.OptionClearOnFinish())
}

// Escapes reports whether somebody sees what is written, on a terminal that takes escape sequences.
func Escapes(w io.Writer) bool { return IsTerminal(w) && os.Getenv("TERM") != "dumb" }

// roomForBar reports whether there is a terminal that is wide enough for a bar.
func roomForBar(w io.Writer) bool { return IsTerminal(w) && columnsOf(w) >= fewest }

// draws reports whether a bar is to be drawn now, in place of what is on the line. A terminal may have become too
// narrow for it, or wide again.
func (p *Printer) draws(bar *progressbar.ProgressBar) bool {
	if bar == nil || time.Since(p.drawn) < redraw {
		return false
	}
	wide := columnsOf(p.notes) >= fewest
	if p.shown != bar || !wide {
		p.hideBar()
	}
	p.drawn = time.Now()
	if wide {
		p.shown = bar
	}
	return wide
}

// hideBar makes room for a line. The next step draws the bar again, at once.
func (p *Printer) hideBar() {
	p.drawn = time.Time{}
	if p.shown != nil {
		p.shown.Clear()
		p.shown = nil
	}
}

// leaveBar draws the bar once more, as it was after the last step, to stay.
func (p *Printer) leaveBar(s trainer.Step) {
	if p.bar == nil || s.Step == 0 || columnsOf(p.notes) < fewest {
		return
	}
	p.bar.Set(s.Step)
	p.bar.Describe(describe(s, p.besideBar()))
	fmt.Fprintln(p.notes)
}

// besideBar returns how many columns are left where the bar itself has none.
func (p *Printer) besideBar() int {
	const longer = 4 // what the times may have become when they are drawn
	at := p.bar.State()
	seconds := func(n float64) time.Duration { return time.Duration(n) * time.Second }
	return columnsOf(p.notes) - longer - len(fmt.Sprintf(" 100%% || (%d/%d) [%s:%s] ", at.Max, at.Max,
		seconds(at.SecondsSince), seconds(at.SecondsLeft)))
}

// describe says of a step what that many columns have room for.
func describe(s trainer.Step, columns int) string {
	text := fmt.Sprintf("loss %.3f", s.Loss)
	for _, more := range []string{fmt.Sprintf(" lr %.1e", s.LR), fmt.Sprintf(" norm %.2g", s.GradNorm),
		fmt.Sprintf(" %s tok/s", amount.Count(s.TokensPer))} {
		if len(text)+len(more) > columns {
			break
		}
		text += more
	}
	return text
}

// onWork shows a bar for what is no step and may take long.
func (p *Printer) onWork(w trainer.Work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.format != Text || !roomForBar(p.notes) {
		return
	}
	if p.work == nil || w.Done == 0 {
		p.work, p.drawn = newBar(w.Total, p.notes), time.Now() // what takes no time needs no bar
		return
	}
	if p.draws(p.work) {
		p.work.Describe(w.What)
		p.work.Set(w.Done)
	}
}
