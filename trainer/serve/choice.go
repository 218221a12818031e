package serve

import (
	"strings"
	"unicode/utf8"

	"github.com/seed98097648/tune/trainer/generate"
)

// piece is a part of an answer.
type piece struct {
	text    string
	tokens  []generate.Token // that the text was made of, where their probabilities are asked for
	offsets []int            // where in the answer each begins, in characters
	calls   []toolCall
}

func (p *piece) empty() bool { return p.text == "" && len(p.calls) == 0 }

// choice is one of the answers to a request as it comes.
type choice struct {
	index  int
	begun  bool // whether the client knows of it
	model  *Model
	probs  bool             // whether the probabilities of tokens are asked for
	tools  *toolSplitter    // nil where no tools are offered
	offset int              // of the next piece in the answer, in characters
	held   piece            // what has come, and is not given out yet
	all    piece            // what was given out
	said   strings.Builder  // of which all.text is what there is: a long answer would be copied for every piece
	result *generate.Result // when it has ended
}

// next returns what one more token lets give out.
func (c *choice) next(t generate.Token) piece {
	if c.probs && !t.End {
		c.held.tokens = append(c.held.tokens, t)
	}
	return c.give(t.Text, false)
}

// end returns what is left. Tokens that have no part in the text, such as those of a text that has stopped it, have
// none in the answer.
func (c *choice) end(r *generate.Result) piece {
	c.result = r
	return c.give("", true)
}

func (c *choice) give(text string, end bool) piece {
	if c.tools == nil {
		c.held.text += text
	} else {
		more, calls := c.tools.push(text, end)
		c.held.text += more
		c.held.calls = append(c.held.calls, calls...)
	}
	if c.held.empty() {
		return piece{}
	}
	p := c.held
	c.held = piece{}
	p.offsets = c.offsets(p)
	c.offset += utf8.RuneCountInString(p.text)
	c.said.WriteString(p.text)
	c.all.text = c.said.String()
	c.all.tokens = append(c.all.tokens, p.tokens...)
	c.all.offsets = append(c.all.offsets, p.offsets...)
	c.all.calls = append(c.all.calls, p.calls...)
	return p
}

// offsets returns where in the answer the tokens of the next piece begin; those that are parts of one character, where
// that does. The last ends with the piece; before the first may stand what an earlier one has held back, and the space
// that it begins with may be left out.
func (c *choice) offsets(p piece) []int {
	begins, length := make([]int, len(p.tokens)), 0
	for i, t := range p.tokens {
		begins[i] = length
		length += len(c.model.Tokenizer.Bytes(t.ID))
	}
	for i, at := range begins {
		at = min(max(0, at+len(p.text)-length), len(p.text))
		for at > 0 && at < len(p.text) && !utf8.RuneStart(p.text[at]) {
			at--
		}
		begins[i] = c.offset + utf8.RuneCountInString(p.text[:at])
	}
	return begins
}

// finish is why it ended, in the words of the API.
func (c *choice) finish() string {
	switch {
	case len(c.all.calls) > 0:
		return "tool_calls"
	case c.result.Reason == generate.Length || c.result.Reason == generate.Full:
		return "length"
	}
	return "stop"
}

// usage is what an answer has cost, in tokens.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// used adds up what all choices have cost. Those of one prompt share it.
func used(choices []*choice, perPrompt int) usage {
	var u usage
	for i, c := range choices {
		if i%perPrompt == 0 {
			u.Prompt += c.result.PromptTokens
			u.Details.Cached += c.result.Reused
		}
		u.Completion += len(c.result.Tokens)
	}
	u.Total = u.Prompt + u.Completion
	return u
}

// logProb is a token and how likely it was, in the form of the chat API.
type logProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func (c *choice) logProb(id int32, p float64) logProb {
	raw := c.model.Tokenizer.Bytes(id)
	b := make([]int, len(raw))
	for i, v := range raw {
		b[i] = int(v)
	}
	return logProb{strings.ToValidUTF8(string(raw), "\uFFFD"), p, b}
}
