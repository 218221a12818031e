// Package progress shows a training run: a bar on a terminal, plain lines elsewhere, or
// JSON lines for programs. It turns the trainer's hooks into output and is the only
// package that knows of bars.
package progress

import (
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/preference"
)

// Format is how steps are written.
type Format string

// The formats.
const (
	// Text is for people: lines, and a bar on a terminal that is wide enough.
	Text Format = "text"
	// JSON is one object on a line for each step, with the fields of trainer.Step and
	// nothing else; what is not a step goes to the other stream, as text.
	JSON Format = "json"
)

// Formats returns the names of the formats.
func Formats() []string { return []string{string(Text), string(JSON)} }

// Printer writes a run's progress to one stream, and notes and the bar to another. As an
// io.Writer it takes notes from anybody, also while the bar is drawn, from any goroutine.
type Printer struct {
	out, notes io.Writer

	mu        sync.Mutex
	bar       *progressbar.ProgressBar // of the steps; nil without one
	work      *progressbar.ProgressBar // of what is no step; nil before any
	shown     *progressbar.ProgressBar // the one that is on the terminal's line, if any is
	drawn     time.Time                // when a bar was drawn
	lines     bool                     // a line for a step
	format    Format
	start     trainer.Start
	stepping  time.Duration // time spent in steps
	stepsSeen int
	evaluated bool
}

// New returns a Printer that writes results to out and everything else to notes.
func New(out, notes io.Writer) *Printer { return &Printer{out: out, notes: notes, format: Text} }

// Write writes a note.
func (p *Printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hideBar()
	if _, err := io.WriteString(p.notes, fitting(p.notes, string(b), "  ")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Attach makes the printer follow a run. Hooks that are set already are called as well,
// before it prints.
func (p *Printer) Attach(h *trainer.Hooks, f Format) {
	p.format = f
	chain(&h.OnStart, p.onStart)
	chain(&h.OnStep, p.onStep)
	chain(&h.OnEval, p.onEval)
	chain(&h.OnWork, p.onWork)
}

func chain[T any](hook *func(T), next func(T)) {
	first := *hook
	*hook = func(v T) {
		if first != nil {
			first(v)
		}
		next(v)
	}
}

func (p *Printer) onStart(s trainer.Start) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start = s
	what := "examples"
	if paths := s.Config.Data.Paths; len(paths) > 0 {
		what = filepath.Base(paths[0])
		if len(paths) > 1 {
			what = fmt.Sprintf("%s and %d more", what, len(paths)-1)
		}
	}
	trained := ""
	if s.Trainable < s.Parameters {
		trained = fmt.Sprintf(", %s of them trained", amount.Count(float64(s.Trainable)))
	}
	if s.Config.Precision.Mixed() {
		trained += ", products in bfloat16"
	}
	fmt.Fprintf(p.text(), "%s, %s parameters%s\n%s: %s of %d tokens, %d held out\n",
		s.Model, amount.Count(float64(s.Parameters)), trained, what, amount.Of(s.Rows, "row"), s.Config.Seq, s.EvalRows)
	if s.Resumed > 0 {
		fmt.Fprintf(p.text(), "going on after step %d of %d\n", s.Resumed, s.Steps)
	}
	bar := roomForBar(p.notes)
	p.lines = !bar || !IsTerminal(p.out)
	if p.format == Text && bar {
		p.bar = newBar(s.Steps, p.notes)
	}
}

func (p *Printer) onStep(s trainer.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.start.Config
	p.stepsSeen++
	p.stepping += time.Duration(float64(c.Batch*c.Seq*c.Accumulate) / s.TokensPer * float64(time.Second))
	if p.format == JSON {
		b, _ := plainjson.Marshal(s) // numbers always marshal
		fmt.Fprintf(p.out, "%s\n", b)
		return
	}
	steps := p.start.Steps
	every := (steps + 19) / 20 // beside the first and the last, about twenty lines between them
	lines := p.lines || p.bar != nil && columnsOf(p.notes) < fewest
	if lines && (s.Step == 1 || s.Step == steps || s.Step%every == 0) {
		p.hideBar()
		fmt.Fprintf(p.out, "step %*d/%d  loss %.4f  %slr %.2e  grad norm %.3g  %s tokens/s\n",
			len(fmt.Sprint(p.start.Steps)),
			s.Step, p.start.Steps, s.Loss, rewards(s.Metrics), s.LR, s.GradNorm, amount.Count(s.TokensPer))
	}
	if p.draws(p.bar) {
		// What a bar has to complain about is the terminal, and not worth a run.
		p.bar.Describe(describe(s, p.besideBar()))
		p.bar.Set(s.Step)
	}
}

// rewards says how well a model that trains on preferences tells good answers from bad ones.
func rewards(m *preference.Metrics) string {
	if m == nil {
		return ""
	}
	text := fmt.Sprintf("accuracy %.2f  ", m.Accuracy)
	if m.Margin != nil {
		text += fmt.Sprintf("margin %.3f  ", *m.Margin)
	}
	return text
}

func (p *Printer) onEval(e trainer.Eval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hideBar()
	when := "before training"
	switch {
	case e.Step > 0:
		when = fmt.Sprintf("after step %d", e.Step)
	case p.evaluated:
		when += ", again: without what was taken off"
	}
	p.evaluated = true
	if e.Metrics != nil {
		fmt.Fprintf(p.text(), "held-out loss %.4f, %s%s\n", e.Loss, rewards(e.Metrics), when)
		p.sets(e)
		return
	}
	fmt.Fprintf(p.text(), "held-out loss %.4f (perplexity %.4g)%s %s\n", e.Loss, math.Exp(e.Loss), Scores(e.Scores), when)
	p.sets(e)
}

// sets tells of each set of an evaluation.
func (p *Printer) sets(e trainer.Eval) {
	for _, s := range e.Sets {
		fmt.Fprintf(p.text(), "  %s  loss %.4f%s\n", s.Name, s.Loss, Scores(s.Scores))
	}
}

// Scores returns scores as they follow a loss in a line.
func Scores(all map[string]float64) (text string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += fmt.Sprintf(", %s %.4f", name, all[name])
	}
	return text
}

// head says how far a run came, and leaves the bar where it ended before.
func (p *Printer) head(s *trainer.Summary) string {
	head := "done: " + amount.Of(s.Steps, "step")
	var asides []string
	if s.Interrupted {
		why := "interrupted"
		if s.TimeUp {
			why = "the time is up"
		}
		head = fmt.Sprintf("%s: %d of %s", why, s.Steps, amount.Of(p.start.Steps, "step"))
		p.leaveBar(s.Last)
	}
	if s.Stopped {
		head = fmt.Sprintf("stopped early: %d of %s", s.Steps, amount.Of(p.start.Steps, "step"))
		asides = append(asides, "no better evaluation any more")
		p.leaveBar(s.Last)
	}
	if before := p.start.Resumed; before > 0 {
		asides = append(asides, fmt.Sprintf("%d of them now", s.Steps-before))
	}
	if asides == nil {
		return head
	}
	return head + ", " + strings.Join(asides, ", ") + ","
}

// Summary prints what a run came to.
func (p *Printer) Summary(s *trainer.Summary) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hideBar()
	w := p.text()
	c := p.start.Config
	fmt.Fprintf(w, "\n%s in %s", p.head(s), s.Elapsed.Round(100*time.Millisecond))
	if p.stepping > 0 {
		fmt.Fprintf(w, ", %s tokens/s", amount.Count(float64(p.stepsSeen*c.Batch*c.Seq*c.Accumulate)/p.stepping.Seconds()))
	}
	fmt.Fprintln(w)
	if s.Steps > 0 {
		fmt.Fprintf(w, "  training loss  %.4f, the mean; %.4f -> %.4f\n", s.Loss, s.First.Loss, s.Last.Loss)
	}
	if s.Before != nil && s.After != nil {
		fmt.Fprintf(w, "  held-out loss  %.4f -> %.4f\n", s.Before.Loss, s.After.Loss)
		for name, after := range s.After.Scores { // one at most
			if before, ok := s.Before.Scores[name]; ok {
				fmt.Fprintf(w, "  %-14s %.4f -> %.4f\n", name, before, after)
			} else { // of a run that has it since it was resumed
				fmt.Fprintf(w, "  %-14s %.4f\n", name, after)
			}
		}
	}
	if s.Checked.Calls > 0 || len(s.Checked.Left) > 0 {
		fmt.Fprintf(w, "  checked        %s\n", s.Checked)
	} else if c.CheckEvery == 0 && s.Report != nil && len(s.Report.Applied()) > 0 {
		fmt.Fprintln(w, "  checked        no kernel: that is turned off")
	}
	for _, wrong := range s.Wrong {
		fmt.Fprint(w, fitting(w, fmt.Sprintf("  taken off      %v\n", wrong), "                 "))
	}
	if s.Best != nil && (s.Best.Step != s.Steps || c.Checkpoints.SaveEvery > 0) {
		where := ""
		switch {
		case s.Loaded:
			where = ": this model is saved"
		case s.BestCheckpoint != "":
			where = ": " + s.BestCheckpoint
		}
		value := s.Best.Loss
		if score, ok := s.Best.Scores[c.Metric.Best]; ok {
			value = score
		}
		fmt.Fprintf(w, "  best           %.4f after step %d%s\n", value, s.Best.Step, where)
	}
}

// text is the stream for lines that are for people.
func (p *Printer) text() io.Writer {
	if p.format == JSON {
		return p.notes
	}
	return p.out
}
