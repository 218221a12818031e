package serve

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"
)

// chatRequest is the body of a request for the next message of a conversation.
type chatRequest struct {
	common
	Messages            []json.RawMessage `json:"messages"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"` // the newer name of max_tokens
	LogProbs            bool              `json:"logprobs"`
	TopLogProbs         int               `json:"top_logprobs"`

	Tools             json.RawMessage            `json:"tools"`
	ToolChoice        json.RawMessage            `json:"tool_choice"`
	TemplateArguments map[string]json.RawMessage `json:"chat_template_kwargs"`
	ResponseFormat    struct {
		Type string `json:"type"`
	} `json:"response_format"`
	Modalities []string        `json:"modalities"`
	Audio      json.RawMessage `json:"audio"`
	Functions  json.RawMessage `json:"functions"`
}

func (q *chatRequest) check() error {
	if q.MaxCompletionTokens != nil {
		if *q.MaxCompletionTokens < 1 {
			return badRequest("max_completion_tokens", "max_completion_tokens is %d, must be positive",
				*q.MaxCompletionTokens)
		}
		q.MaxTokens = q.MaxCompletionTokens
	}
	if err := q.common.check(); err != nil {
		return err
	}
	switch {
	case q.TopLogProbs < 0 || q.TopLogProbs > maxLikeliest:
		return badRequest("top_logprobs", "top_logprobs is %d, must be between 0 and %d", q.TopLogProbs, maxLikeliest)
	case q.TopLogProbs > 0 && !q.LogProbs:
		return badRequest("top_logprobs", "top_logprobs has no effect without logprobs: set that, too")
	case q.ResponseFormat.Type != "" && q.ResponseFormat.Type != "text":
		return badRequest("response_format", "response_format is %q; this server writes text alone", q.ResponseFormat.Type)
	}
	for _, m := range q.Modalities {
		if m != "text" {
			return badRequest("modalities", "modalities has %q; this server writes text alone", m)
		}
	}
	return refuse(map[string]bool{"audio": given(q.Audio), "functions": given(q.Functions)})
}

// chat answers a conversation.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	var q chatRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	m, err := s.model(q.Model)
	if err != nil {
		return err
	}
	release, err := s.admit(*q.N, 1)
	if err != nil {
		return err
	}
	defer release()
	asked, text, err := q.prompt(m)
	if err != nil {
		return err
	}
	j := &job{common: &q.common, model: m, form: &chatForm{likeliest: q.TopLogProbs, head: newHead("chatcmpl-", m)}}
	prompt := m.Tokenizer.Encode(text, false)
	if j.requests, err = s.requests(&q.common, m, "messages", [][]int32{prompt}); err != nil {
		return err
	}
	if err := whole(r.Context(), m.Template, asked, text); err != nil {
		return err
	}
	for i := range j.requests {
		c := &choice{index: i, model: m, probs: q.LogProbs}
		if len(asked.Tools) > 0 && m.tools != nil {
			c.tools = &toolSplitter{form: m.tools}
		}
		if j.choices = append(j.choices, c); q.LogProbs {
			j.requests[i].LogProbs = orOwn(q.TopLogProbs)
		}
	}
	return s.answer(w, r, j)
}

// orOwn is how many likely tokens an engine is asked for, the chosen one's probability at least.
func orOwn(likeliest int) int {
	if likeliest == 0 {
		return -1
	}
	return likeliest
}

// head is what all objects of an answer begin with.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

func newHead(prefix string, m *Model) head {
	return head{ID: prefix + rand.Text(), Created: time.Now().Unix(), Model: m.Name}
}

func (h head) as(object string) head {
	h.Object = object
	return h
}

// chatForm is the form of a message.
type chatForm struct {
	head
	likeliest int
}

type chatObject struct {
	head
	Choices []chatChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatMessage  `json:"delta,omitempty"`
	LogProbs *chatLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

// chatMessage is a message, or what is added to one.
type chatMessage struct {
	Role    string     `json:"role,omitempty"`
	Content *string    `json:"content,omitempty"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

type chatLogProbs struct {
	Content []chatLogProb `json:"content"`
}

type chatLogProb struct {
	logProb
	Top []logProb `json:"top_logprobs"`
}

func (f *chatForm) whole(choices []*choice, u usage) any {
	o := chatObject{head: f.as("chat.completion"), Usage: &u}
	for _, c := range choices {
		m := &chatMessage{Role: "assistant", Content: &c.all.text, Calls: c.all.calls}
		o.Choices = append(o.Choices, chatChoice{Index: c.index, Message: m, LogProbs: f.logProbs(c, c.all),
			Finish: new(c.finish())})
	}
	return o
}

func (f *chatForm) chunk(choices ...chatChoice) chatObject {
	return chatObject{head: f.as("chat.completion.chunk"), Choices: append([]chatChoice{}, choices...)}
}

func (f *chatForm) begin(c *choice) any {
	return f.chunk(chatChoice{Index: c.index, Delta: &chatMessage{Role: "assistant", Content: new("")}})
}

func (f *chatForm) piece(c *choice, p piece) any {
	m := &chatMessage{Calls: p.calls}
	if p.text != "" {
		m.Content = &p.text
	}
	return f.chunk(chatChoice{Index: c.index, Delta: m, LogProbs: f.logProbs(c, p)})
}

func (f *chatForm) end(c *choice) any {
	return f.chunk(chatChoice{Index: c.index, Delta: &chatMessage{}, Finish: new(c.finish())})
}

func (f *chatForm) usage(u usage) any {
	o := f.chunk()
	o.Usage = &u
	return o
}

func (f *chatForm) logProbs(c *choice, p piece) *chatLogProbs {
	if !c.probs {
		return nil
	}
	l := &chatLogProbs{Content: []chatLogProb{}}
	for _, t := range p.tokens {
		item := chatLogProb{logProb: c.logProb(t.ID, t.LogProb), Top: []logProb{}}
		for _, other := range t.Top[:min(f.likeliest, len(t.Top))] {
			item.Top = append(item.Top, c.logProb(other.ID, other.LogProb))
		}
		l.Content = append(l.Content, item)
	}
	return l
}
