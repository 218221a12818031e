package corpus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/data/records"
)

// loader reads examples into a store.
type loader struct {
	config Config
	model  Model
	store  *data.Store
	whole  []bool // of each example: it is not to be cut at the end of a row
	places []records.Place
	report Report
	pieces pieces
	cutOff int // examples of which the end of the row left nothing to learn

	template Template  // nil until there is a conversation
	before   *answered // of marked answers, the one read last in a source,
	isFirst  bool      // which is its first, that waits for another
	forks    *Forks    // nil until there is a pair
	vars     map[string]any
}

func newLoader(c Config, m Model) *loader {
	vars, _ := c.Talk.Vars() // which Validate has seen
	return &loader{config: c, model: m, store: data.NewStore(), vars: vars}
}

// mostReported is how many broken rows a report names, and mostPlaces of how many examples
// it is remembered where they come from.
const (
	mostReported = 5
	mostPlaces   = 1000
)

// read adds the examples of a source.
func (l *loader) read(ctx context.Context, s Source) error {
	l.before, l.isFirst = nil, false
	before, first, cutOff := l.report, l.seen(), l.cutOff
	for _, file := range s.Files {
		if l.isEnough(first) {
			break
		}
		if err := l.readFile(ctx, s, file, first); err != nil {
			return err
		}
	}
	switch {
	case l.report.Examples > before.Examples:
		return nil
	case l.isFirst && l.report.Empty == before.Empty:
		return fmt.Errorf("%s: one marked answer alone: how far the model has moved is measured on the answers to other "+
			"prompts; give two or more", s.Name)
	case l.report.Bad > before.Bad:
		return fmt.Errorf("%s: all rows are bad%s", s.Name, firstOf(l.report.FirstBad[len(before.FirstBad):]))
	case l.report.Empty > before.Empty && l.cutOff == cutOff:
		return fmt.Errorf("%s: no example has anything to learn: what the assistant says is empty in all of them", s.Name)
	case l.report.Empty > before.Empty:
		return fmt.Errorf("%s: within trainer.Config.Seq %d, no example has anything to learn; raise trainer.Config.Seq",
			s.Name, l.model.Seq)
	}
	return fmt.Errorf("%s holds no text", s.Name)
}

// firstOf names the first of the bad rows of a source, if it is among those reported.
func firstOf(bad []string) string {
	if len(bad) == 0 {
		return ""
	}
	return "; the first: " + bad[0]
}

// isEnough reports whether a source has all the examples that it may have; before it there
// were so many.
func (l *loader) isEnough(before int) bool {
	return l.config.MaxSamples > 0 && l.seen()-before >= l.config.MaxSamples
}

// seen counts what was read, used or not.
func (l *loader) seen() int {
	n := l.report.Examples + l.report.Empty + l.report.Bad
	if l.isFirst { // and waits
		n++
	}
	return n
}

// readFile adds the examples of one file of a source, before which there were so many.
func (l *loader) readFile(ctx context.Context, s Source, file string, first int) error {
	report := SourceReport{File: file}
	before := l.report.Examples
	var layout format.Layout
	for r, err := range records.Read(file) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && report.Format == "" {
			if layout, err = l.layout(s, r); err == nil {
				report.Format = layout.Format
			} else if _, ok := errors.AsType[*records.Error](err); !ok {
				return fmt.Errorf("%v: %w", r.Place, err)
			}
		}
		if err == nil {
			err = l.row(layout, r)
		}
		if err := l.bad(err); err != nil {
			return err
		}
		if l.isEnough(first) {
			break
		}
	}
	report.Examples = l.report.Examples - before
	l.report.Sources = append(l.report.Sources, report)
	return nil
}

// layout tells the layout of a file by a row. If what would tell it cannot be read, another row may.
func (l *loader) layout(s Source, row records.Record) (format.Layout, error) {
	layout, err := l.layoutBy(s, row)
	if err != nil && len(row.Broken) > 0 {
		err = &records.Error{Place: row.Place,
			Err: fmt.Errorf("%w; it has columns that cannot be read: %v", err, row.Broken)}
	}
	return layout, err
}

func (l *loader) layoutBy(s Source, first records.Record) (format.Layout, error) {
	if s.describe != nil {
		layout, err := s.describe(first)
		return layout, cmp.Or(err, l.fits(layout.Format))
	}
	if l.model.Kind != Follow {
		return format.DetectPreference(l.model.Kind == Marked, first)
	}
	if l.config.Format == "" {
		return format.Detect(format.Auto, first)
	}
	return format.Detect(l.config.Format, first)
}

// bad returns an error, unless it is of a row that may be left out.
func (l *loader) bad(err error) error {
	if _, ok := errors.AsType[*records.Error](err); !ok {
		return err
	}
	if !l.config.SkipBadRows {
		return fmt.Errorf("%w (corpus.Config.SkipBadRows leaves such rows out)", err)
	}
	l.report.Bad++
	if len(l.report.FirstBad) < mostReported {
		l.report.FirstBad = append(l.report.FirstBad, err.Error())
	}
	return nil
}

// row adds the example of a row. What is wrong with the row is a *records.Error.
func (l *loader) row(layout format.Layout, r records.Record) error {
	e, err := layout.Example(r)
	if err != nil {
		return &records.Error{Place: r.Place, Err: err}
	}
	if e.Chat == nil {
		if strings.TrimSpace(e.Text) == "" {
			return nil
		}
		return l.add(r.Place, l.document(e.Text), nil, false)
	}
	if l.template == nil {
		if l.template, err = l.model.Template(); err != nil {
			return fmt.Errorf("%v is a conversation: %w", r.Place, err)
		}
		l.report.Missing = l.template.Missing(l.model.Encoder.Encode)
	}
	if err = l.config.Talk.apply(&e, l.vars); err == nil && e.Rejected != nil {
		err = l.config.Talk.apply(e.Rejected, l.vars)
	}
	if err != nil {
		return &records.Error{Place: r.Place, Err: err}
	}
	if l.model.Kind != Follow {
		return l.preference(r.Place, e)
	}
	ids, learn, err := l.conversation(e)
	if err != nil {
		return &records.Error{Place: r.Place, Err: err}
	}
	return l.add(r.Place, ids, learn, true)
}

// add stores an example. A whole one is cut to the length of a row.
func (l *loader) add(at records.Place, ids []int32, learn []bool, whole bool) error {
	l.report.Longest = max(l.report.Longest, len(ids))
	cut := (whole || l.config.CutLong) && len(ids) > l.model.Seq
	if cut {
		ids, learn = ids[:l.model.Seq], learn[:min(l.model.Seq, len(learn))]
	}
	learned := max(len(ids)-1, 0)
	if learn != nil {
		if learned = learnedOf(learn); learned == 0 {
			l.empty(cut)
			return nil
		}
	}
	l.count(at, len(ids), learned, cut, whole)
	return l.store.Add(ids, learn)
}

// learnedOf counts the tokens to learn; nothing comes before the first.
func learnedOf(learn []bool) (n int) {
	for _, yes := range learn[min(1, len(learn)):] {
		if yes {
			n++
		}
	}
	return n
}

// empty counts an example that is left out, because it has nothing to learn or was cut so.
func (l *loader) empty(cut bool) {
	l.report.Empty++
	if cut {
		l.cutOff++
	}
}

// count counts an example that is used.
func (l *loader) count(at records.Place, tokens, learned int, cut, whole bool) {
	if cut {
		l.report.Truncated++
	}
	l.report.Examples++
	l.report.Tokens += int64(tokens)
	l.report.Learned += int64(learned)
	l.whole = append(l.whole, whole)
	if len(l.places) < mostPlaces {
		l.places = append(l.places, at)
	}
}

// shorten makes rows that each have one example no longer than the longest of these needs:
// the rest would be padding, which takes time and changes nothing.
func (l *loader) shorten() {
	const multiple = 8
	if l.config.NoPacking {
		longest := 0
		for i := range l.store.Len() {
			longest = max(longest, l.store.Places(i))
		}
		l.model.Seq = min(l.model.Seq, (longest+multiple-1)/multiple*multiple)
	}
}

// pack lays examples into rows: documents end to end, conversations whole.
func (l *loader) pack(examples []int) (data.Rows, error) {
	p, err := data.NewPacked(l.store, l.model.Seq, l.model.Pad)
	if err != nil {
		return nil, err
	}
	var documents, conversations []int
	for _, e := range examples {
		if l.whole[e] {
			conversations = append(conversations, e)
		} else {
			documents = append(documents, e)
		}
	}
	if l.config.NoPacking {
		p.Single(documents)
		p.Single(conversations)
	} else {
		p.Concat(documents)
		p.BestFit(conversations)
	}
	if p.Len() == 0 {
		return nil, errors.New("the documents are too short to learn from: none has two tokens in a row")
	}
	return p, nil
}
