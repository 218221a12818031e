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

// preference adds a pair, or a marked answer beside a mismatched one: the answer of the example
// before, and for the first that of the one after.
func (l *loader) preference(at records.Place, e format.Example) error {
	if l.model.Kind == Pairs {
		return l.addPair(at, e, data.Chosen, *e.Rejected, data.Rejected)
	}
	before := l.before
	l.before = &e
	if before == nil {
		l.first = at
		return nil
	}
	if l.first != (records.Place{}) {
		if err := l.addMarked(l.first, *before, e); err != nil {
			return err
		}
		l.first = records.Place{}
	}
	return l.addMarked(at, e, *before)
}

func (l *loader) addMarked(at records.Place, e, other format.Example) error {
	role := data.Rejected
	if *e.Good {
		role = data.Chosen
	}
	last := len(e.Chat.Messages) - 1
	messages := append(slices.Clone(e.Chat.Messages[:last]), other.Chat.Messages[len(other.Chat.Messages)-1])
	mismatched := format.Example{Chat: &chat.Conversation{Messages: messages, Tools: e.Chat.Tools, Vars: e.Chat.Vars},
		Mute: e.Mute}
	return l.addPair(at, e, role, mismatched, data.Mismatched)
}

// addPair stores two answers, each of which is cut to half a row.
func (l *loader) addPair(at records.Place, a format.Example, roleA data.Role, b format.Example,
	roleB data.Role) error {
	parts := []data.Part{{Role: roleA}, {Role: roleB}}
	tokens, learned, cut, empty := 0, 0, false, false
	for i, e := range []format.Example{a, b} {
		ids, learn, err := l.conversation(e)
		if err != nil {
			return &records.Error{Place: at, Err: err}
		}
		l.report.Longest = max(l.report.Longest, 2*len(ids))
		most := min(len(ids), l.model.Seq/2)
		cut = cut || most < len(ids)
		parts[i].IDs, parts[i].Learn = ids[:most], learn[:most]
		n := learnedOf(learn[:most])
		tokens, learned, empty = tokens+most, learned+n, empty || n == 0
	}
	if empty {
		l.empty(cut)
		return nil
	}
	l.count(at, tokens, learned, cut, true)
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
