package corpus

import (
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/data/records"
)

// fits reports a format that is not of the kind of examples asked for.
func (l *loader) fits(f format.Format) error {
	switch {
	case l.model.Kind == Follow && f == format.Pairs:
		return fmt.Errorf("ranking is true: these are preference pairs (dpo, orpo, simpo): %w", format.ErrPreference)
	case l.model.Kind == Follow && f == format.Marked:
		return fmt.Errorf("columns has kto_tag: these are answers marked good or bad (kto): %w", format.ErrPreference)
	case l.model.Kind == Pairs && f != format.Pairs:
		return fmt.Errorf("these are no preference pairs, as preference.Config.Stage asks for: the data set has no ranking")
	case l.model.Kind == Marked && f != format.Marked:
		return fmt.Errorf("these are no marked answers, as preference.Config.Stage asks for: the data set has no kto_tag")
	}
	return nil
}

// answered is an answer with what was said before it, encoded.
type answered struct {
	example format.Example
	at      records.Place
	part    data.Part
}

// answered encodes an example. What is wrong with it is a *records.Error.
func (l *loader) answered(at records.Place, e format.Example) (*answered, error) {
	ids, learn, err := l.conversation(e)
	if err != nil {
		return nil, &records.Error{Place: at, Err: err}
	}
	role := data.Chosen
	if e.Good != nil && !*e.Good {
		role = data.Rejected
	}
	return &answered{e, at, data.Part{IDs: ids, Learn: learn, Role: role}}, nil
}

// preference adds a pair, or a marked answer beside a mismatched one: the answer of the example
// before, and for the first that of the one after.
func (l *loader) preference(at records.Place, e format.Example) error {
	a, err := l.answered(at, e)
	if err != nil {
		return err
	}
	if l.model.Kind == Pairs {
		return l.addPair(a, *e.Rejected, data.Rejected)
	}
	before := l.before
	l.before = a
	if before == nil {
		l.isFirst = true
		return nil
	}
	if l.isFirst {
		l.isFirst = false
		err := l.addMarked(before, a)
		if err != nil && l.config.SkipBadRows { // or the caller says it
			err = l.bad(err)
		}
		if err != nil {
			return err
		}
	}
	return l.addMarked(a, before)
}

// addMarked adds an answer, and beside it the other one as if it had been given to the same prompt.
func (l *loader) addMarked(a, other *answered) error {
	c, others := a.example.Chat, other.example.Chat.Messages
	messages := append(slices.Clone(c.Messages[:len(c.Messages)-1]), others[len(others)-1])
	return l.addPair(a, format.Example{Chat: &chat.Conversation{Messages: messages, Tools: c.Tools, Vars: c.Vars},
		Mute: a.example.Mute}, data.Mismatched)
}

// addPair stores two answers, each of which is cut to half a row.
func (l *loader) addPair(a *answered, e format.Example, role data.Role) error {
	b, err := l.answered(a.at, e)
	if err != nil {
		return err
	}
	b.part.Role = role
	parts := []data.Part{a.part, b.part}
	tokens, learned, cut, empty := 0, 0, false, false
	for i := range parts {
		p := &parts[i]
		l.report.Longest = max(l.report.Longest, 2*len(p.IDs))
		most := min(len(p.IDs), l.model.Seq/2)
		cut = cut || most < len(p.IDs)
		p.IDs, p.Learn = p.IDs[:most], p.Learn[:most]
		n := learnedOf(p.Learn)
		tokens, learned, empty = tokens+most, learned+n, empty || n == 0
	}
	if empty {
		l.empty(cut)
		return nil
	}
	l.count(a.at, tokens, learned, cut, true)
	return l.store.AddPair(parts[0], parts[1], l.common(parts[0], parts[1]))
}

// common returns how many tokens at the beginning of two answers a row is to have once.
func (l *loader) common(first, second data.Part) int {
	n := data.Common(first, second)
	if n == 0 || l.config.RepeatPrompt || l.model.Forks == nil {
		return 0
	}
	if l.forks == nil {
		forks := l.model.Forks()
		l.forks = &forks
	}
	if len(first.IDs) > l.forks.Longest {
		l.report.Repeated, l.report.RepeatedWhy = l.report.Repeated+1, l.forks.Why
		return 0
	}
	l.report.Shared += int64(n)
	return n
}
