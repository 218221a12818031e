package corpus

import (
	"errors"
	"slices"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/format"
)

// document encodes a text with its special tokens and appends the token that ends a text,
// where the encoder has not done so.
func (l *loader) document(text string) []int32 {
	ids, eos := l.model.Encoder.Encode(text, true), l.model.EOS
	if eos != data.None && (len(ids) == 0 || ids[len(ids)-1] != eos) {
		ids = append(slices.Clip(ids), eos) // the encoder may share its memory
	}
	return ids
}

// conversation encodes an example, and says which tokens are to be learned.
func (l *loader) conversation(e format.Example) (ids []int32, learn []bool, err error) {
	spans, err := l.template.Spans(*e.Chat)
	if err != nil {
		return nil, nil, err
	}
	if err := mute(spans, e.Mute); err != nil {
		return nil, nil, err
	}
	open := slices.IndexFunc(spans, func(s chat.Span) bool { return s.Open && s.Learn })
	if open >= 0 && l.model.EOS != data.None {
		spans = spans[:open+1]
	}
	if l.config.TrainOnPrompt {
		for i := range spans {
			spans[i].Learn = true
		}
	}
	ids, learn = l.pieces.encode(l.model.Encoder, join(spans))
	if open >= 0 && l.model.EOS != data.None { // or the model would not learn to stop
		ids, learn = append(slices.Clip(ids), l.model.EOS), append(learn, true)
	}
	return ids, learn, nil
}

// mute makes context of the words of messages that are not to be learned.
func mute(spans []chat.Span, muted []bool) error {
	for i, s := range spans {
		switch {
		case muted == nil || !s.Learn:
		case s.Message < 0:
			return errors.New("some messages are not to be learned, but the chat template does not keep the assistant's " +
				"messages apart, with one generation block each")
		case muted[s.Message]:
			spans[i].Learn = false
		}
	}
	return nil
}

// join puts neighbours together that are both learned or both not.
func join(spans []chat.Span) []chat.Span {
	var joined []chat.Span
	for _, s := range spans {
		last := len(joined) - 1
		switch {
		case s.Text == "":
		case last >= 0 && joined[last].Learn == s.Learn:
			joined[last].Text += s.Text
		default:
			joined = append(joined, s)
		}
	}
	return joined
}

// pieces encodes a text piece by piece, so that no token is partly learned: as it is when
// the model writes, whose prompt is encoded without the answer.
//
// Most tokenizers give a piece the tokens that it has in the whole text, unless a token
// would reach over the boundary. Those of Llama 2 do not: they put a space before what they
// take for the beginning of a text. There, a piece is encoded together with the one before
// it, and that one's tokens are taken off.
type pieces struct {
	known    bool // whether prefixes is set
	prefixes bool // the encoder puts something before a text
}

// anchor is a text that tokens do not reach out of.
const anchor = "\n"

func (p *pieces) encode(e Encoder, spans []chat.Span) (ids []int32, learn []bool) {
	if !p.known {
		p.known = true
		p.prefixes = !slices.Equal(e.Encode("x", false), after(e, anchor, "x"))
	}
	for i, s := range spans {
		var piece []int32
		if i == 0 || !p.prefixes {
			piece = e.Encode(s.Text, false)
		} else if piece = after(e, spans[i-1].Text, s.Text); piece == nil {
			if piece = after(e, anchor, s.Text); piece == nil {
				piece = e.Encode(s.Text, false)
			}
		}
		ids = append(ids, piece...)
		learn = append(learn, slices.Repeat([]bool{s.Learn}, len(piece))...)
	}
	return ids, learn
}

// after returns the tokens of a text that stands after another; nil if there is a token
// with a part in both.
func after(e Encoder, before, text string) []int32 {
	first, both := e.Encode(before, false), e.Encode(before+text, false)
	if len(both) <= len(first) || !slices.Equal(both[:len(first)], first) {
		return nil
	}
	return both[len(first):]
}
