package chat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/jinja"
)

// Spans renders a conversation and cuts the text where the assistant's own words begin
// and end: what a model is to learn. Put together, the spans are what Render gives of the
// conversation as Fit returns it: what is learned has calls as they are written in a prompt.
//
// A template with generation blocks says itself which the words are. Of any other they
// are what it writes for the message after the generation prompt, with the token that
// ends the turn, without what then leads over to the next.
//
// A message may look different once others follow: many templates drop the thoughts of
// earlier turns. The words are then found by where the message stands in the whole text.
// Where that cannot be told, Spans returns an error rather than a guess.
func (t *Template) Spans(c Conversation) ([]Span, error) {
	if t.plain {
		if err := thoughtless(c); err != nil {
			return nil, err
		}
	}
	c = t.Fit(c)
	full, err := t.render(c, false)
	if err != nil {
		return nil, err
	}
	if t.choose(c).HasGenerations() {
		return t.generated(c, full)
	}
	cut := &cutter{template: t, conversation: c, full: full.Text, probe: newProbe(full.Text)}
	var words []jinja.Range
	var owners []int
	for i, m := range c.Messages {
		if m.Role != "assistant" {
			continue
		}
		cut.learnHabits(i)
		if cut.deaf {
			return nil, errNoWords
		}
		r, err := cut.words(i)
		if err == nil && len(words) > 0 && r.Start < words[len(words)-1].End {
			err = errAmbiguous
		}
		if err == nil {
			err = writesCalls(m, full.Text[r.Start:r.End])
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		words, owners = append(words, r), append(owners, i)
	}
	out := spans(full.Text, words, owners)
	last := len(out) - 1
	if last > 0 && strings.TrimSpace(out[last].Text) == "" {
		last--
	}
	if last >= 0 && cut.stop == "" {
		out[last].Open = out[last].Learn && !endOfTurn.MatchString(out[last].Text)
	}
	return out, nil
}

var errAmbiguous = errors.New("it cannot be told which part of the rendered text are the assistant's words; " +
	"mark them in the template with {% generation %} and {% endgeneration %}, or name a built-in template (" +
	nameList() + ")")

var errNoWords = errors.New("the chat template does not write what the assistant says, so that there is nothing to " +
	"learn; correct the template, or name a built-in one (" + nameList() + ")")

// generated cuts a text at its generation blocks.
func (t *Template) generated(c Conversation, out jinja.Output) ([]Span, error) {
	if out.Hidden {
		return nil, errors.New("the chat template has a generation block inside a macro, a filter or a set block, " +
			"where it cannot be told what becomes of its text; move it out")
	}
	cut := spans(out.Text, out.Generations, t.owners(c, len(out.Generations)))
	var learned strings.Builder
	for _, s := range cut {
		if s.Learn {
			learned.WriteString(s.Text)
		}
	}
	if strings.TrimSpace(learned.String()) == "" && slices.ContainsFunc(c.Messages, saysSomething) {
		return nil, errNoWords
	}
	for i, m := range c.Messages {
		if err := writesCalls(m, learned.String()); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return cut, nil
}

// owners returns which message each generation block wrote, of so many. That they stand in the order of the messages
// is known only if every message of the assistant adds one: another number of blocks, as one for thoughts and one for
// the answer, could leave the same sum.
func (t *Template) owners(c Conversation, blocks int) []int {
	var owners []int
	for i, m := range c.Messages {
		if m.Role == "assistant" {
			owners = append(owners, i)
		}
	}
	if len(owners) == 1 {
		return slices.Repeat(owners, blocks)
	}
	known := len(owners) == blocks
	for n, i := range owners {
		if !known {
			break
		}
		before := c
		before.Messages = c.Messages[:i+1]
		out, err := t.render(before, false)
		known = err == nil && len(out.Generations) == n+1
	}
	if known {
		return owners
	}
	return slices.Repeat([]int{-1}, blocks)
}

// saysSomething reports whether a message is the assistant's and has words.
func saysSomething(m Message) bool {
	return m.Role == "assistant" && strings.TrimSpace(m.Content) != ""
}

// writesCalls checks that the functions that a message calls are among the words learned
// from it: many templates leave calls out, and what remains would teach a model to end
// its turn instead of calling.
func writesCalls(m Message, words string) error {
	calls, _ := m.ToolCalls.([]any)
	for _, call := range calls {
		object, _ := call.(*Object)
		if inner, ok := object.Get("function"); ok {
			object, _ = inner.(*Object)
		}
		value, _ := object.Get("name")
		if name, ok := value.(string); ok && !strings.Contains(words, name) {
			return fmt.Errorf("the chat template does not write the call of %q as the assistant's words; "+
				"leave such rows out, or use a model with a template for calls (some write none beside content)", name)
		}
	}
	return nil
}

// spans cuts text so that the given pieces are to be learned, which are the words of these messages.
func spans(text string, learn []jinja.Range, owners []int) []Span {
	var out []Span
	add := func(s Span) {
		if s.Text != "" {
			out = append(out, s)
		}
	}
	end := 0
	for i, r := range learn {
		add(Span{Text: text[end:r.Start], Message: -1})
		add(Span{Text: text[r.Start:r.End], Learn: true, Message: owners[i]})
		end = r.End
	}
	add(Span{Text: text[end:], Message: -1})
	return out
}

// newProbe returns a word that the text does not contain.
func newProbe(text string) string {
	probe := "tuneprobe"
	for strings.Contains(text, probe) {
		probe += "x"
	}
	return probe
}

// cutter finds the assistant's words in one rendered conversation.
type cutter struct {
	template     *Template
	conversation Conversation
	full         string
	probe        string

	// The habits of the template, learned from the first turn of the assistant.
	learned bool
	deaf    bool   // it does not write what the assistant says
	header  string // before the words, where there is no generation prompt
	tail    string // after the content, at the end of a conversation
	stop    string // what of that ends the turn
}

// render renders other messages in place of the conversation's; ok tells whether the
// template can.
func (c *cutter) render(messages []Message, prompt bool) (text string, ok bool) {
	conversation := c.conversation
	conversation.Messages = messages
	text, err := c.template.Render(conversation, prompt)
	return text, err == nil
}

// with returns the first n messages, with another in place of message i.
func (c *cutter) with(n, i int, m Message) []Message {
	messages := slices.Clone(c.conversation.Messages[:n])
	messages[i] = m
	return messages
}

// around cuts the rendering of messages at the probe, which must be there exactly once.
func (c *cutter) around(messages []Message) (before, after string, ok bool) {
	text, ok := c.render(messages, false)
	if !ok || strings.Count(text, c.probe) != 1 {
		return "", "", false
	}
	return strings.Cut(text, c.probe)
}

// isDeaf reports whether the template writes the same text whatever the assistant says in
// message i.
func (c *cutter) isDeaf(i int) bool {
	before := c.conversation.Messages[:i:i]
	one, ok := c.render(append(before, Message{Role: "assistant", Content: c.probe}), false)
	other, ok2 := c.render(append(before, Message{Role: "assistant", Content: "another " + c.probe}), false)
	return ok && ok2 && one == other
}

// learnHabits finds out what the template writes around the words of message i, the first
// of the assistant, by putting the probe in their place.
func (c *cutter) learnHabits(i int) {
	if c.learned {
		return
	}
	c.learned = true
	probe := Message{Role: "assistant", Content: c.probe}
	last := append(c.conversation.Messages[:i:i], probe)
	before, tail, ok := c.around(last)
	if !ok {
		c.deaf = c.isDeaf(i)
		return
	}
	c.tail, c.stop = tail, strings.TrimRight(tail, " \n")
	if _, next, ok := c.around(append(last, Message{Role: "user", Content: "?"})); ok {
		if common := commonStop(tail, next); common != "" {
			c.stop = common
		}
	}
	prompted, ok := c.render(c.conversation.Messages[:i], true)
	bare, ok2 := c.render(c.conversation.Messages[:i], false)
	if header, found := strings.CutPrefix(before, bare); ok && ok2 && found && prompted == bare &&
		strings.TrimSpace(header) != "" {
		c.header = header
	}
}

// specialToken is how most models write theirs.
var specialToken = regexp.MustCompile(`^\s?(?:<[|｜][^<>|｜\s]+[|｜]>|</s>|<eos>|<end_of_turn>)`)

// endOfTurn finds one of these at the end of words.
var endOfTurn = regexp.MustCompile(`(?:<[|｜][^<>|｜\s]+[|｜]>|</s>|<eos>|<end_of_turn>)\s*$`)

// roleToken is how templates that have no token for the end of a turn begin the next.
var roleToken = regexp.MustCompile(`<\|[a-z_]+\|>`)

// commonStop returns what ends a turn both at the end of a conversation and before
// another turn: what the two texts begin with alike, up to its last special token.
func commonStop(tail, next string) string {
	n := 0
	for n < len(tail) && n < len(next) && tail[n] == next[n] {
		n++
	}
	common := tail[:n]
	if common == tail {
		return strings.TrimRight(common, " \n")
	}
	return common[:strings.LastIndexByte(common, '>')+1]
}

// words returns where in the full text the words of message i are.
func (c *cutter) words(i int) (jinja.Range, error) {
	messages := c.conversation.Messages
	prompt, ok := c.render(messages[:i], true)
	if ok {
		if r, ok := c.asWritten(i, prompt); ok {
			return r, nil
		}
	}
	before, after, ok := c.around(c.with(len(messages), i, c.probed(i)))
	if !ok || !strings.HasPrefix(c.full, before) {
		return jinja.Range{}, errAmbiguous
	}
	r := jinja.Range{Start: len(before)}
	// What the template puts between its prompt and the content, the model writes too.
	if prompt != "" && strings.HasPrefix(before, prompt) {
		r.Start = len(prompt)
	}
	if r.End, ok = c.end(i, r.Start, len(before), after); !ok {
		return r, errAmbiguous
	}
	return r, nil
}

// asWritten handles the plain case: the conversation up to message i is how the full text
// begins, and the prompt is how that begins.
func (c *cutter) asWritten(i int, prompt string) (jinja.Range, bool) {
	upTo, ok := c.render(c.conversation.Messages[:i+1], false)
	if !ok || !strings.HasPrefix(c.full, upTo) || !strings.HasPrefix(upTo, prompt) {
		return jinja.Range{}, false
	}
	r := jinja.Range{Start: len(prompt), End: len(strings.TrimRight(upTo, " \n"))}
	if c.header != "" && strings.HasPrefix(upTo[r.Start:], c.header) {
		r.Start += len(c.header)
	}
	if strings.HasSuffix(upTo, c.tail) && strings.HasPrefix(c.tail, c.stop) {
		r.End = len(upTo) - len(c.tail) + len(c.stop)
	}
	r.End = max(r.Start, r.End)
	if c.stop == "" {
		r.End += len(specialToken.FindString(c.full[r.End:]))
	}
	return r, true
}

// probed is message i with the probe as its content.
func (c *cutter) probed(i int) Message {
	m := c.conversation.Messages[i]
	m.Content = c.probe
	if m.Extra != nil {
		m.Extra = without(m.Extra, "content")
	}
	return m
}

// end returns where the words of message i end, that begin at start; after is what
// follows its content, which begins at content.
func (c *cutter) end(i, start, content int, after string) (int, bool) {
	messages := c.conversation.Messages
	if messages[i].ToolCalls == nil {
		if !strings.HasSuffix(c.full[content:], after) {
			return 0, false
		}
		end := len(c.full) - len(after)
		if c.stop != "" && strings.HasPrefix(after, c.stop) {
			return end + len(c.stop), true
		}
		return end + len(specialToken.FindString(after)), true
	}
	if i+1 == len(messages) {
		return len(strings.TrimRight(c.full, " \n")), true
	}
	// The calls follow the content: the turn ends with the last end of a turn before the
	// next message.
	next, _, ok := c.around(c.with(len(messages), i+1, c.probed(i+1)))
	if !ok || !strings.HasPrefix(c.full, next) || len(next) < start {
		return 0, false
	}
	if c.stop == "" {
		tokens := roleToken.FindAllStringIndex(next[start:], -1)
		if len(tokens) == 0 {
			return 0, false
		}
		return start + tokens[len(tokens)-1][1], true
	}
	end := strings.LastIndex(next[start:], c.stop)
	return start + end + len(c.stop), end >= 0
}
