package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/trainer/data/records"
)

// row makes a record of a JSON object.
func row(t testing.TB, object string) records.Record {
	t.Helper()
	r := records.Record{}
	if err := json.Unmarshal([]byte(object), &r.Fields); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	return r
}

// show writes an example on a line for each message; a minus is one not to learn.
func show(t testing.TB, e Example) string {
	t.Helper()
	if e.Chat == nil {
		return fmt.Sprintf("text %q", e.Text)
	}
	var b strings.Builder
	for i, m := range e.Chat.Messages {
		if e.Mute != nil && e.Mute[i] {
			b.WriteString("-")
		}
		fmt.Fprintf(&b, "%s %q", m.Role, m.Content)
		if m.ToolCalls != nil {
			fmt.Fprintf(&b, " calls %s", marshal(t, m.ToolCalls))
		}
		for key, v := range m.Extra.All() {
			fmt.Fprintf(&b, " %s %s", key, marshal(t, v))
		}
		b.WriteString("\n")
	}
	if e.Chat.Tools != nil {
		fmt.Fprintf(&b, "tools %s\n", marshal(t, e.Chat.Tools))
	}
	return b.String()
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDetectedRowsBecomeExamples(t *testing.T) {
	for name, c := range map[string]struct {
		format    Format
		row, want string
	}{
		"alpaca": {Alpaca, `{"instruction": "Add.", "input": "1 2", "output": "3", "id": 7}`,
			"user \"Add.\\n1 2\"\nassistant \"3\"\n"},
		"alpaca without input": {Alpaca, `{"instruction": "Hi.", "input": "", "output": "Ho."}`,
			"user \"Hi.\"\nassistant \"Ho.\"\n"},
		"alpaca with nulls": {Alpaca, `{"instruction": "Hi.", "input": null, "output": "Ho.", "system": null, "history": ` +
			`null}`, "user \"Hi.\"\nassistant \"Ho.\"\n"},
		"alpaca, all of it": {Alpaca, `{"instruction": "c", "output": "d", "system": "s", "history": [["a", "b"]]}`,
			"system \"s\"\nuser \"a\"\nassistant \"b\"\nuser \"c\"\nassistant \"d\"\n"},
		"alpaca as Dolly has it": {Alpaca, `{"instruction": "a", "context": "b", "response": "c", "category": "qa"}`,
			"user \"a\\nb\"\nassistant \"c\"\n"},
		"prompt and completion": {Prompt, `{"prompt": "a", "completion": "b"}`, "user \"a\"\nassistant \"b\"\n"},
		"question and answer":   {Prompt, `{"answer": "b", "question": "a"}`, "user \"a\"\nassistant \"b\"\n"},
		"prompt and completion as messages": {Prompt, `{"prompt": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
			"completion": [{"role": "assistant", "content": "d"}]}`,
			"user \"a\"\n-assistant \"b\"\nuser \"c\"\nassistant \"d\"\n"},
		"a completion that goes on with what a tool returns": {Prompt, `{"prompt": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "b"}], "completion": [{"role": "tool", "content": "c"},
			{"role": "assistant", "content": "d", "weight": 0}, {"role": "assistant", "content": "e"}], "system": "s"}`,
			"system \"s\"\nuser \"a\"\n-assistant \"b\"\ntool \"c\"\n-assistant \"d\"\nassistant \"e\"\n"},
		"an answer that is JSON": {Alpaca, `{"instruction": "a", "output": "{\"from\": \"NYC\", \"to\": \"Rome\"}"}`,
			"user \"a\"\nassistant \"{\\\"from\\\": \\\"NYC\\\", \\\"to\\\": \\\"Rome\\\"}\"\n"},
		"an answer that is JSON of messages": {Alpaca, `{"instruction": "a", "output": "[{\"role\": \"assistant\"}]"}`,
			"user \"a\"\nassistant \"[{\\\"role\\\": \\\"assistant\\\"}]\"\n"},
		"prompt and completion as messages in CSV": {Prompt, `{"prompt": "[{\"role\": \"user\", \"content\": \"a\"}]",
			"completion": "[{\"role\": \"assistant\", \"content\": \"b\"}]"}`, "user \"a\"\nassistant \"b\"\n"},
		"alpaca that begins with a line end": {Alpaca, `{"instruction": "\na", "input": "b", "output": "c"}`,
			"user \"\\na\\nb\"\nassistant \"c\"\n"},
		"alpaca of an input alone": {Alpaca, `{"instruction": "", "input": "b", "output": "c"}`,
			"user \"b\"\nassistant \"c\"\n"},
		"text": {Text, `{"text": " x\n", "meta": {}}`, `text " x\n"`},
		"sharegpt": {ShareGPT, `{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], ` +
			`"system": "s"}`,
			"system \"s\"\nuser \"a\"\nassistant \"b\"\n"},
		"sharegpt, in CSV": {ShareGPT, `{"conversations": "[{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", ` +
			`\"value\": \"b\"}]", "system": ""}`,
			"user \"a\"\nassistant \"b\"\n"},
		"sharegpt: its own system message comes first": {ShareGPT,
			`{"conversations": [{"from": "system", "value": "own"}, {"from": "human", "value": "a"}, {"from": "gpt", ` +
				`"value": "b"}], "system": "s"}`,
			"system \"own\"\nuser \"a\"\nassistant \"b\"\n"},
		"sharegpt with a call": {ShareGPT,
			`{"conversations": [{"from": "human", "value": "a"},
				{"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"z\": 1, \"b\": 2}}"},
				{"from": "observation", "value": "{}"}, {"from": "gpt", "value": "b"}], "tools": "[{\"name\": \"f\"}]"}`,
			"user \"a\"\n" + `assistant "" calls [{"type":"function","function":{"name":"f","arguments":{"z":1,"b":2}}}]` +
				"\n" +
				"tool \"{}\"\nassistant \"b\"\n" + `tools [{"type":"function","function":{"name":"f"}}]` + "\n"},
		"messages": {Messages, `{"messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": "a", ` +
			`"name": "Bo"}, {"role": "assistant", "content": "b"}]}`,
			"system \"s\"\nuser \"a\" name \"Bo\"\nassistant \"b\"\n"},
		"messages with calls": {Messages,
			`{"messages": [{"role": "assistant", "content": null,
				"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.0}"}}]},
				{"role": "tool", "content": "2", "tool_call_id": "1"}]}`,
			`assistant "" calls [{"id":"1","type":"function","function":{"name":"f","arguments":{"x":1.0}}}]` + "\n" +
				`tool "2" tool_call_id "1"` + "\n"},
		"messages with a call, and functions, as OpenAI's API had them before": {Messages,
			`{"messages": [{"role": "assistant", "content": null,
				"function_call": {"name": "f", "arguments": "{\"x\": 1}"}}, {"role": "function", "name": "f", "content": "2"},
				{"role": "assistant", "content": "3", "function_call": null}], "functions": [{"name": "f"}]}`,
			`assistant "" calls [{"type":"function","function":{"name":"f","arguments":{"x":1}}}]` + "\n" +
				"tool \"2\" name \"f\"\nassistant \"3\"\n" + `tools [{"type":"function","function":{"name":"f"}}]` + "\n"},
		"messages with lists of no calls": {Messages,
			`{"messages": [{"role": "user", "content": "a", "tool_calls": []}, {"role": "assistant", "content": "b", ` +
				`"tool_calls": "[]"}]}`,
			"user \"a\"\nassistant \"b\"\n"},
		"messages with lists of no calls and no tools beside those of before": {Messages,
			`{"messages": [{"role": "assistant", "content": "", "tool_calls": [], "function_call": {"name": "f"}}], ` +
				`"tools": [], "functions": [{"name": "f"}]}`,
			`assistant "" calls [{"type":"function","function":{"name":"f"}}]` + "\n" +
				`tools [{"type":"function","function":{"name":"f"}}]` + "\n"},
		"messages of parts": {Messages,
			`{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "value": "b"}]},
				{"role": "assistant", "content": [{"type": "reasoning", "value": "hm"},
					{"type": "tool_call", "value": "{\"name\": \"f\", \"arguments\": {}}"}]}]}`,
			"user \"ab\"\n" + `assistant "" calls [{"type":"function","function":{"name":"f","arguments":{}}}] ` +
				`reasoning_content "hm"` + "\n"},
		"messages with calls and thoughts in several places": {Messages,
			`{"messages": [{"role": "assistant", "content": [{"type": "reasoning", "text": "h"},
				{"type": "tool_call", "value": {"name": "f"}}, {"type": "reasoning", "text": "m"}, {"type": "text", "text": "a"}],
				"tool_calls": [{"name": "g"}]}]}`,
			`assistant "a" calls [{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}] ` +
				`reasoning_content "hm"` + "\n"},
		"messages with weights": {Messages,
			`{"messages": [{"role": "user", "content": "a", "loss_weight": 0.0}, {"role": "assistant", "content": "b", ` +
				`"weight": 0}, {"role": "assistant", "content": "c", "loss_weight": 1.0}]}`,
			"-user \"a\"\n-assistant \"b\"\nassistant \"c\"\n"},
		"messages from Parquet, with nulls": {Messages,
			`{"messages": [{"role": "user", "content": "a", "tool_calls": null, "name": null}, {"role": "assistant", ` +
				`"content": "b", "tool_calls": null, "name": null}]}`,
			"user \"a\"\nassistant \"b\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := row(t, c.row)
			l, err := Detect(Auto, r)
			if err != nil || l.Format != c.format {
				t.Fatalf("detected %q, %v; want %q", l.Format, err, c.format)
			}
			e, err := l.Example(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, show(t, e)); diff != "" {
				t.Error(diff)
			}
			if forced, err := Detect(c.format, r); err != nil || forced.Format != c.format {
				t.Errorf("asked for, the format is %q, %v", forced.Format, err)
			}
		})
	}
}

func TestWhatCannotBeReadIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		row    string
		want   []string
	}{
		"unknown columns": {Auto, `{"b": 1, "a": 2}`,
			[]string{`["a" "b"]`, "no known format", "dataset_info.json"}},
		"self-instruct seeds": {Auto, `{"id": 1, "instruction": "x", "instances": []}`,
			[]string{`"instances"`, "no known format"}},
		"semicolons": {Auto, `{"instruction;output": "a;b"}`,
			[]string{`["instruction;output"] are of no known format (commas separate the columns of CSV); known`}},
		"two formats": {Auto, `{"instruction": "x", "input": "", "output": "y", "text": "z"}`,
			[]string{"alpaca or text", "corpus.Config.Format"}},
		"two questions": {Auto, `{"question": "x", "prompt": "y", "answer": "z"}`,
			[]string{`["prompt" "question"]`, "mean the same"}},
		"DPO pairs": {Auto, `{"conversations": [], "chosen": {}, "rejected": {}}`, []string{"preference " +
			"pairs (dpo, orpo, simpo)"}},
		"DPO pairs of version 1": {Auto, `{"chosen_messages": [], "rejected_messages": []}`, []string{"preference " +
			"pairs (dpo, orpo, simpo)"}},
		"KTO in CSV": {Auto, `{"prompt": "a", "completion": "b", "label": "False"}`, []string{"good or bad (kto)"}},
		"KTO":        {Auto, `{"messages": [], "label": true}`, []string{"good or bad (kto)"}},
		"pictures":   {Auto, `{"messages": [], "images": ["a.png"]}`, []string{`"images"`, "only text"}},
		"no messages": {Auto, `{"messages": [{"speaker": "x", "said": "y"}]}`,
			[]string{`"messages" is not a list of messages`, "dataset_info.json"}},
		"not the format asked for": {Alpaca, `{"text": "x"}`, []string{`["text"]`, "not those of the format alpaca"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Detect(c.format, row(t, c.row))
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v lacks %q", err, part)
				}
			}
		})
	}
	for _, f := range []Format{Alpaca, ShareGPT, Messages, Prompt} {
		if _, err := Detect(f, records.Record{Text: "x"}); err == nil {
			t.Errorf("plain text is %s", f)
		}
	}
	if _, err := Detect(Auto, row(t, `{"chosen": 1, "rejected": 2}`)); !errors.Is(err, ErrPreference) {
		t.Errorf("%v is not ErrPreference", err)
	}
}

// A column that could not be read is wrong only where it has a meaning.
func TestBrokenColumnsAreRefusedWhereTheyAreRead(t *testing.T) {
	r := row(t, `{"text": null, "image": null, "other": null}`)
	l, err := Detect(Auto, r)
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]string{"text": `field "text": not UTF-8`, "other": "is not a string but null",
		"image": `"image": only text`} {
		r.Broken = map[string]error{column: errors.New("not UTF-8")}
		if _, err := l.Example(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", column, err, want)
		}
	}
}

// A label that is a word and empty lists of pictures mean nothing.
func TestHarmlessColumnsAreNotRefused(t *testing.T) {
	for _, object := range []string{
		`{"text": "x", "label": "news"}`, `{"text": "x", "label": 1}`, `{"text": "x", "images": []}`,
		`{"text": "x", "image": null}`, `{"text": "x", "chosen": 1}`, `{"text": "x", "label": "false"}`,
	} {
		if _, err := Detect(Auto, row(t, object)); err != nil {
			t.Errorf("%s: %v", object, err)
		}
	}
}

func TestABadRowSaysWhatIsWrong(t *testing.T) {
	prompts := `{"prompt": "", "completion": ""}`
	alpaca, sharegpt, messages, text := `{"instruction": "", "output": ""}`,
		`{"conversations": [{"from": "human", "value": ""}]}`,
		`{"messages": [{"role": "user", "content": ""}]}`, `{"text": ""}`
	for name, c := range map[string]struct{ first, row, want string }{
		"a picture, not in the first row": {alpaca, `{"instruction": "x", "output": "y", "images": ["a.png"]}`,
			`"images": only text`},
		"a mark, not in the first row": {alpaca, `{"instruction": "x", "output": "y", "label": false}`, "good or bad (kto)"},
		"no prompt and no answer":      {prompts, `{"prompt": [], "completion": []}`, "no message of the assistant"},
		"messages for a text": {prompts, `{"prompt": "x", "completion": [{"role": "assistant", "content": "y"}]}`,
			`field "completion" is not a string`},
		"an input beside messages": {alpaca, `{"instruction": [{"role": "user", "content": "x"}], "input": "z",
			"output": [{"role": "assistant", "content": "y"}]}`, `field "input": field "instruction" is a list of messages`},
		"half a character in JSON in a text": {sharegpt,
			`{"conversations": "[{\"from\": \"gpt\", \"value\": \"\\ud83d\"}]"}`,
			"half of a surrogate pair"},
		"a completion of the user": {prompts, `{"prompt": [{"role": "user", "content": "x"}],
			"completion": [{"role": "user", "content": "y"}]}`, "no message of the assistant to learn"},
		"a column is missing": {alpaca, `{"text": "x"}`, `no field "instruction"; it has ["text"]`},
		"a column is null": {alpaca, `{"instruction": null, "output": "x"}`,
			`field "instruction" is not a string but null`},
		"a column is a list": {text, `{"text": ["x"]}`, `field "text" is not a string but ["x"]`},
		"no answer":          {alpaca, `{"instruction": "x", "output": " "}`, `field "output" is empty`},
		"history of numbers": {alpaca, `{"instruction": "x", "output": "y", "history": [["a", "b"], [1, 2]]}`,
			`field "history": turn 2 is not a pair of strings`},
		"history of triples": {alpaca, `{"instruction": "x", "output": "y", "history": [["a", "b", "c"]]}`,
			`turn 1 is not a pair`},
		"no conversation":        {sharegpt, `{"x": 1}`, `no field "conversations"; it has ["x"]`},
		"a conversation of text": {sharegpt, `{"conversations": "hello"}`, `field "conversations": `},
		"a conversation, object": {sharegpt, `{"conversations": {}}`, `field "conversations" is not a list but {}`},
		"an empty conversation":  {sharegpt, `{"conversations": []}`, "no message of the assistant to learn"},
		"nobody answers": {sharegpt, `{"conversations": [{"from": "human", "value": "x"}]}`,
			"no message of the assistant to learn"},
		"an assistant that says nothing": {messages, `{"messages": [{"role": "user", "content": "x"}, ` +
			`{"role": "assistant", "content": null, "tool_calls": []}]}`,
			"message 2: content is null, and nothing is called"},
		"an unknown role": {sharegpt, `{"conversations": [{"from": "dog", "value": "x"}]}`,
			`message 1: from is "dog"; known: assistant, bard`},
		"a role that is a number": {sharegpt, `{"conversations": [{"from": 1, "value": "x"}]}`,
			`message 1: "from" is not a string`},
		"no role":           {sharegpt, `{"conversations": [{"value": "x"}]}`, `message 1: no "from"`},
		"no words":          {sharegpt, `{"conversations": [{"from": "gpt"}]}`, `message 1: no "value"`},
		"a message of text": {sharegpt, `{"conversations": ["x"]}`, "message 1: not an object"},
		"a call that is no JSON": {sharegpt, `{"conversations": [{"from": "function_call", "value": "f(x)"}]}`,
			"a call must be JSON"},
		"a call of nothing": {sharegpt, `{"conversations": [{"from": "function_call", "value": "{\"arguments\": {}}"}]}`,
			"a call must be JSON"},
		"a call of a number": {sharegpt, `{"conversations": [{"from": "function_call", "value": "7"}]}`,
			"a call must be JSON"},
		"tools that are text": {sharegpt, `{"conversations": [{"from": "gpt", "value": "x"}], "tools": "use f"}`,
			`field "tools": `},
		"tools that are strings": {sharegpt, `{"conversations": [{"from": "gpt", "value": "x"}], "tools": ["f"]}`,
			`field "tools": tool 1 is not an object`},
		"a picture": {messages, `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`,
			"part 1: a part of the type image_url; only text"},
		"content that is a number": {messages, `{"messages": [{"role": "user", "content": 5}]}`,
			"neither a string nor a list"},
		"half a weight": {messages, `{"messages": [{"role": "assistant", "content": "x", "loss_weight": 0.5}]}`,
			"loss_weight: 0.5; want 0 or 1"},
		"a user's weight": {messages, `{"messages": [{"role": "user", "content": "x", "weight": 1}]}`,
			"weight: 1 for a message of the user; only the assistant's"},
		"weights of 0 alone": {messages, `{"messages": [{"role": "assistant", "content": "x", "weight": 0}]}`,
			"no message of the assistant to learn"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Detect(Auto, row(t, c.first))
			if err != nil {
				t.Fatal(err)
			}
			if e, err := l.Example(row(t, c.row)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("read %s, error %v; want %q", show(t, e), err, c.want)
			}
		})
	}
}

func TestDescribedColumnsAndTags(t *testing.T) {
	for name, c := range map[string]struct {
		formatting    string
		columns, tags map[string]string
		row, want     string
	}{
		"defaults": {"", nil, nil, `{"instruction": "a", "input": "b", "output": "c"}`, "user \"a\\nb\"\nassistant \"c\"\n"},
		"columns": {"alpaca", map[string]string{"prompt": "p", "query": "q", "response": "r", "system": "s", "history": "h"},
			nil,
			`{"p": "a", "q": "b", "r": "c", "s": "d", "h": [["e", "f"]], "system": "not this"}`,
			"system \"d\"\nuser \"e\"\nassistant \"f\"\nuser \"a\\nb\"\nassistant \"c\"\n"},
		"for pre-training": {"", map[string]string{"prompt": "content"}, nil, `{"content": "a"}`, `text "a"`},
		"tags": {"sharegpt", map[string]string{"messages": "m", "tools": "t"},
			map[string]string{"role_tag": "r", "content_tag": "c", "user_tag": "U", "assistant_tag": "A", "system_tag": "S",
				"observation_tag": "O", "function_tag": "F"},
			`{"m": [{"r": "S", "c": "1"}, {"r": "U", "c": "2"}, {"r": "F", "c": "{\"name\": \"f\"}"}, {"r": "O", "c": "3"}, ` +
				`{"r": "A", "c": "4"}], "t": [{"name": "f"}]}`,
			"system \"1\"\nuser \"2\"\nassistant \"\" calls [{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]\ntool " +
				"\"3\"\nassistant \"4\"\n" +
				"tools [{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := row(t, c.row)
			l, err := Described(c.formatting, c.columns, c.tags, r)
			if err != nil {
				t.Fatal(err)
			}
			e, err := l.Example(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, show(t, e)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := Described("chatml", nil, nil, row(t, "{}")); err == nil {
		t.Error("an unknown formatting is accepted")
	}
}
