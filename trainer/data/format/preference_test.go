package format

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/data/records"
)

const common = "user \"a\"\nassistant \"b\"\n"

func TestRowsOfPreferencesBecomeExamples(t *testing.T) {
	for name, c := range map[string]struct{ row, chosen, rejected string }{
		"alpaca": {`{"instruction": "a", "input": "1", "chosen": "b", "rejected": "c"}`,
			"user \"a\\n1\"\nassistant \"b\"\n", "user \"a\\n1\"\nassistant \"c\"\n"},
		"alpaca with system and history": {`{"instruction": "a", "system": "s", "history": [["x", "y"]],
			"chosen": "b", "rejected": "c"}`,
			"system \"s\"\nuser \"x\"\n-assistant \"y\"\n" + common,
			"system \"s\"\nuser \"x\"\n-assistant \"y\"\nuser \"a\"\nassistant \"c\"\n"},
		"prompt and texts": {`{"prompt": "a", "chosen": "b", "rejected": "c"}`, common, "user \"a\"\nassistant \"c\"\n"},
		"sharegpt": {`{"conversations": [{"from": "human", "value": "a"}], "chosen": {"from": "gpt", "value": "b"},
			"rejected": {"from": "gpt", "value": "c"}}`, common, "user \"a\"\nassistant \"c\"\n"},
		"prompt and answers as messages": {`{"prompt": [{"role": "user", "content": "a"}], "chosen": [{"role": "assistant",
			"content": "b"}], "rejected": [{"role": "assistant", "content": "c"}]}`, common, "user \"a\"\nassistant \"c\"\n"},
		"a prompt that the answers have, too": {`{"prompt": "a", "chosen": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "b"}], "rejected": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "c"}]}`, common, "user \"a\"\nassistant \"c\"\n"},
		"whole conversations": {`{"chosen_messages": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "b"},
			{"role": "user", "content": "d"}, {"role": "assistant", "content": "e"}], "rejected_messages": [
			{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "d"},
			{"role": "assistant", "content": "f"}]}`, "user \"a\"\n-assistant \"b\"\nuser \"d\"\nassistant \"e\"\n",
			"user \"a\"\n-assistant \"b\"\nuser \"d\"\nassistant \"f\"\n"},
		"whole conversations and a system prompt of another column": {`{"system": "s", "prompt": "a",
			"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
			"rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]}`,
			"system \"s\"\n" + common, "system \"s\"\nuser \"a\"\nassistant \"c\"\n"},
		"whole conversations with a system prompt": {`{"system": "s", "chosen": [{"role": "system", "content": "own"},
			{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "rejected": [
			{"role": "system", "content": "own"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]}`,
			"system \"own\"\n" + common, "system \"own\"\nuser \"a\"\nassistant \"c\"\n"},
		"messages in texts, as CSV has them": {`{"prompt": "[{\"role\": \"user\", \"content\": \"a\"}]",
			"chosen": "{\"role\": \"assistant\", \"content\": \"b\"}",
			"rejected": "[{\"from\": \"gpt\", \"value\": \"c\"}]"}`, common, "user \"a\"\nassistant \"c\"\n"},
		"answers that are JSON of other messages": {`{"prompt": "a", "chosen": "[{\"role\": \"user\", \"content\": \"x\"}]",
			"rejected": "{\"from\": \"NYC\"}"}`, "user \"a\"\nassistant \"[{\\\"role\\\": \\\"user\\\", " +
			"\\\"content\\\": \\\"x\\\"}]\"\n", "user \"a\"\nassistant \"{\\\"from\\\": \\\"NYC\\\"}\"\n"},
		"answers after what a tool returns": {`{"prompt": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "b"}],
			"chosen": [{"role": "tool", "content": "c"}, {"role": "assistant", "content": "d"}],
			"rejected": [{"role": "tool", "content": "c"}, {"role": "assistant", "content": "e"}]}`,
			"user \"a\"\n-assistant \"b\"\ntool \"c\"\nassistant \"d\"\n",
			"user \"a\"\n-assistant \"b\"\ntool \"c\"\nassistant \"e\"\n"},
		"whole conversations in texts": {`{"prompt": "a", "chosen": "[{\"role\": \"user\", \"content\": \"a\"}, ` +
			`{\"role\": \"assistant\", \"content\": \"b\"}]", "rejected": "[{\"role\": \"user\", \"content\": \"a\"}, ` +
			`{\"role\": \"assistant\", \"content\": \"c\"}]"}`, common, "user \"a\"\nassistant \"c\"\n"},
		"answers that are JSON": {`{"prompt": "a", "chosen": "[1]", "rejected": "{\"x\": [2]}"}`,
			"user \"a\"\nassistant \"[1]\"\n", "user \"a\"\nassistant \"{\\\"x\\\": [2]}\"\n"},
		"an answer twice": {`{"prompt": "a", "chosen": "b", "rejected": "b"}`, common, common},
	} {
		t.Run(name, func(t *testing.T) {
			r := row(t, c.row)
			l, err := DetectPreference(false, r)
			if err != nil {
				t.Fatal(err)
			}
			e, err := l.Example(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.chosen+"/"+c.rejected, show(t, e)+"/"+show(t, *e.Rejected)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMarkedRowsBecomeExamples(t *testing.T) {
	for name, c := range map[string]struct {
		row  string
		good bool
	}{
		"messages": {`{"messages": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "b"}], "label": true}`, true},
		"prompt":        {`{"prompt": "a", "completion": "b", "label": false}`, false},
		"alpaca":        {`{"instruction": "a", "output": "b", "kto_tag": 1}`, true},
		"a mark in CSV": {`{"prompt": "a", "completion": "b", "label": "TRUE"}`, true},
		"messages in halves": {`{"prompt": [{"role": "user", "content": "a"}],
			"completion": [{"role": "assistant", "content": "b"}], "label": "False"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := row(t, c.row)
			l, err := DetectPreference(true, r)
			if err != nil {
				t.Fatal(err)
			}
			e, err := l.Example(r)
			if err != nil || show(t, e) != common || *e.Good != c.good {
				t.Errorf("%s, %v, %v", show(t, e), *e.Good, err)
			}
		})
	}
}

func TestPreferencesThatCannotBeReadAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		marked    bool
		row, want string
	}{
		"answers to follow":      {false, `{"prompt": "a", "completion": "b"}`, "no chosen and rejected; known: "},
		"no mark":                {true, `{"prompt": "a", "completion": "b"}`, "no label or kto_tag"},
		"texts without a prompt": {false, `{"chosen": "b", "rejected": "c"}`, "there is no prompt"},
		"no answer":              {true, `{"prompt": "a", "label": true}`, "no prompt or no answer"},
		"another mark": {true, `{"prompt": "a", "completion": "b", "label": "news"}`,
			`"label" is neither true nor false`},
		"the user's last word": {false, `{"chosen": [{"role": "user", "content": "a"}],
			"rejected": [{"role": "user", "content": "a"}]}`, "not an answer"},
		"a number for an answer": {false, `{"prompt": "a", "chosen": 1, "rejected": 2}`, `"chosen"`},
		"a picture": {false, `{"prompt": "a", "chosen": "b", "rejected": "c", "images": ["a.png"]}`,
			`"images": only text`},
		"a mark without a column": {true, `{"messages": [], "kto_tag": true, "label": true}`, "mean the same"},
	} {
		t.Run(name, func(t *testing.T) {
			r := row(t, c.row)
			l, err := DetectPreference(c.marked, r)
			if err == nil {
				_, err = l.Example(r)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// The published data sets of preferences are read whole, as their names in dataset_info.json say and by
// their columns alike.
func TestRealPreferences(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets", "llamafactory")
	type strings = map[string]string
	for name, c := range map[string]struct {
		marked        bool
		rows          int
		formatting    string
		columns, tags strings
	}{
		"dpo_en_demo.json": {false, 300, "sharegpt", strings{"messages": "conversations", "chosen": "chosen",
			"rejected": "rejected"}, nil},
		"kto_en_demo.json": {true, 300, "sharegpt", strings{"messages": "messages", "kto_tag": "label"},
			strings{"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}},
		"v1_dpo_demo.jsonl": {false, 10, "", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for r, err := range records.Read(filepath.Join(dir, name)) {
				if err != nil {
					t.Fatal(err)
				}
				n++
				l, err := DetectPreference(c.marked, r)
				if err != nil {
					t.Fatal(err)
				}
				e, err := l.Example(r)
				if err != nil {
					t.Fatalf("%v: %v", r.Place, err)
				}
				if c.formatting == "" {
					continue
				}
				named, err := DescribedPreference(c.formatting, c.columns, c.tags, r)
				if err != nil {
					t.Fatal(err)
				}
				again, err := named.Example(r)
				if err != nil || show(t, again) != show(t, e) || (e.Rejected == nil) != c.marked || (e.Good != nil) != c.marked {
					t.Errorf("%v: %v, %+v and %+v", r.Place, err, e, again)
				}
			}
			if n != c.rows {
				t.Errorf("%d rows, want %d", n, c.rows)
			}
		})
	}
}
