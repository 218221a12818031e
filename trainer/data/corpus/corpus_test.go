package corpus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data"
)

// letters encodes a text as its bytes, after a 1 with addSpecial.
type letters struct{ end []int32 }

func (e letters) Encode(text string, addSpecial bool) []int32 {
	var ids []int32
	if addSpecial {
		ids = append(ids, 1)
	}
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return append(ids, e.end...)
}

// plain writes "user>text|" for each message; the assistant's text and bar are learned.
type plain struct{}

func (plain) Spans(c chat.Conversation) ([]chat.Span, error) {
	var spans []chat.Span
	if think, ok := c.Vars["think"]; ok {
		spans = append(spans, chat.Span{Text: fmt.Sprintf("think=%v|", think)})
	}
	for i, m := range c.Messages {
		if m.Content == "boom" {
			return nil, errors.New("the template refuses it")
		}
		spans = append(spans, chat.Span{Text: m.Role + ">"}, chat.Span{Text: m.Content + "|",
			Learn: m.Role == "assistant", Message: i, Open: i+1 == len(c.Messages) && strings.HasSuffix(m.Content, "...")})
		if i+1 == len(c.Messages) && m.Content == "line..." {
			spans = append(spans, chat.Span{Text: "\n", Message: -1})
		}
	}
	return spans, nil
}

// Missing finds the bar, unless it is one token.
func (plain) Missing(encode func(string, bool) []int32) []string {
	if len(encode("|", false)) == 1 {
		return nil
	}
	return []string{"|"}
}

const (
	eos = 2
	pad = 3
)

// model is one with a toy tokenizer and template.
func model(seq int) Model {
	return Model{Encoder: letters{}, EOS: eos, Pad: pad, Seq: seq,
		Template: func() (Template, error) { return plain{}, nil }}
}

// folder makes a folder with the given files and returns its path.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t testing.TB, c Config, m Model) *Corpus {
	t.Helper()
	corpus, err := Load(t.Context(), c, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := corpus.Close(); err != nil {
			t.Error(err)
		}
	})
	return corpus
}

// text is the tokens of a row, with what is learned between brackets, and a slash before
// each part but the first.
func text(t testing.TB, rows data.Rows, i int) string {
	t.Helper()
	r, err := rows.Row(i)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	inside := false
	for k, id := range r.IDs {
		if r.Segments[k] == 0 {
			break
		}
		if learned := r.Labels[k] != data.Ignore; learned != inside {
			inside = learned
			b.WriteByte("])[("[map[bool]int{false: 0, true: 2}[learned]])
		}
		if k > 0 && r.Segments[k] != r.Segments[k-1] {
			b.WriteByte('/')
		}
		switch id {
		case 1:
			b.WriteByte('^')
		case eos:
			b.WriteByte('$')
		default:
			b.WriteByte(byte(id))
		}
	}
	if inside {
		b.WriteByte(']')
	}
	return b.String()
}

// texts are the texts of all rows, in order.
func texts(t testing.TB, rows data.Rows) []string {
	t.Helper()
	all := make([]string, rows.Len())
	for i := range all {
		all[i] = text(t, rows, i)
	}
	return all
}

const pairRow = `{"prompt": "%s", "completion": "%s"}` + "\n"

func TestWhatIsLearned(t *testing.T) {
	chatRow := `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}, ` +
		`{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}`
	for name, c := range map[string]struct {
		file, text string
		config     Config
		want       string
	}{
		"all of a text, but its first token": {"a.txt", "abc", Config{}, "^[abc$]"},
		"the assistant's words":              {"a.jsonl", fmt.Sprintf(pairRow, "a", "b"), Config{}, "user>a|assistant>[b|]"},
		"the end of a text, where nothing ends the words": {"a.jsonl", fmt.Sprintf(pairRow, "a", "b..."), Config{},
			"user>a|assistant>[b...|$]"},
		"the end of a text in place of a line's": {"a.jsonl", fmt.Sprintf(pairRow, "a", "line..."), Config{},
			"user>a|assistant>[line...|$]"},
		"all of a conversation on request": {"a.jsonl", fmt.Sprintf(pairRow, "a", "b"), Config{TrainOnPrompt: true},
			"u[ser>a|assistant>b|]"},
		"nothing of a weight of 0": {"a.jsonl", chatRow, Config{}, "user>a|assistant>b|user>c|assistant>[d|]"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Paths = []string{filepath.Join(folder(t, map[string]string{c.file: c.text}), c.file)}
			corpus := load(t, c.config, model(64))
			if got := texts(t, corpus.Train); !slices.Equal(got, []string{c.want}) || corpus.Eval.Len() != 0 {
				t.Errorf("rows %q, want %q", got, c.want)
			}
			learned := strings.Count(c.want[strings.Index(c.want, "["):], "") - 3 // brackets and the end
			if r := corpus.Report; r.Examples != 1 || r.Learned != int64(learned) {
				t.Errorf("report %+v, want %d learned", r, learned)
			}
		})
	}
}

func TestRowsAreMadeAsAskedFor(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.txt":   "abcdef\n<|endoftext|>\ngh",
		"b.jsonl": fmt.Sprintf(pairRow, "x", "y") + fmt.Sprintf(pairRow, "x", "yy"),
	})
	for _, c := range []struct {
		config Config
		want   []string
	}{
		{Config{}, []string{"^[abcdef$]/^[gh$]", "user>x|assistant>[yy|]", "user>x|assistant>[y|]"}},
		{Config{NoPacking: true}, []string{"^[abcdef$]", "^[gh$]", "user>x|assistant>[y|]", "user>x|assistant>[yy|]"}},
	} {
		c.config.Paths, c.config.Eval = []string{dir}, []string{filepath.Join(dir, "a.txt")}
		corpus := load(t, c.config, model(22))
		if got := texts(t, corpus.Train); !slices.Equal(got, c.want) {
			t.Errorf("%+v: rows %q, want %q", c.config, got, c.want)
		}
		if r := corpus.Report; r.TrainRows != len(c.want) || r.EvalRows != corpus.Eval.Len() || r.EvalRows == 0 {
			t.Errorf("report %+v", r)
		}
	}
}

// A conversation that is too long is cut at its end, and one without an answer before the
// cut is left out; both are counted. Texts go on in the next row.
func TestLongConversationsAreCutAndCounted(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": fmt.Sprintf(pairRow, "a", "bcdefgh") +
		fmt.Sprintf(pairRow, "a question too long", "x") + fmt.Sprintf(pairRow, "a", "b")}), "a.jsonl")
	corpus := load(t, Config{Paths: []string{path}, NoPacking: true}, model(20))
	r := corpus.Report
	if r.Examples != 2 || r.Truncated != 1 || r.Empty != 1 || r.Longest != 37 || r.Tokens != 20+19 || r.Learned != 3+2 {
		t.Errorf("report %+v", r)
	}
	all := append(texts(t, corpus.Train), texts(t, corpus.Eval)...)
	slices.Sort(all)
	if want := []string{"user>a|assistant>[bcd]", "user>a|assistant>[b|]"}; !slices.Equal(all,
		slices.Sorted(slices.Values(want))) {
		t.Errorf("rows %q", all)
	}
}

func TestBadRows(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": fmt.Sprintf(pairRow, "a", "b") + "{\n" +
		`{"prompt": 1}` + "\n" + fmt.Sprintf(pairRow, "boom", "b")}), "a.jsonl")
	_, err := Load(t.Context(), Config{Paths: []string{path}}, model(64))
	if err == nil || !strings.HasPrefix(err.Error(), "data: "+path+":2: ") || !strings.Contains(err.Error(),
		"corpus.Config.SkipBadRows") {
		t.Errorf("error %v", err)
	}
	corpus := load(t, Config{Paths: []string{path}, SkipBadRows: true}, model(64))
	r := corpus.Report
	if r.Examples != 1 || r.Bad != 3 || len(r.FirstBad) != 3 {
		t.Fatalf("report %+v", r)
	}
	for i, want := range []string{path + ":2: want a JSON object", path + `:3: field "prompt" is not a string but 1`,
		path + ":4: the template refuses it"} {
		if !strings.HasPrefix(r.FirstBad[i], want) {
			t.Errorf("bad row %q, want %q", r.FirstBad[i], want)
		}
	}
	bad := filepath.Join(folder(t, map[string]string{"a.jsonl": "x\ny\n"}), "a.jsonl")
	if _, err := Load(t.Context(), Config{Paths: []string{bad}, SkipBadRows: true}, model(64)); err == nil ||
		!strings.Contains(err.Error(), "all rows are bad") || !strings.Contains(err.Error(), ":1: ") {
		t.Errorf("only bad rows: %v", err)
	}
}

// nothingLearned is a template that makes context of everything.
type nothingLearned struct{}

func (nothingLearned) Spans(chat.Conversation) ([]chat.Span, error) {
	return []chat.Span{{Text: "context"}}, nil
}

func (nothingLearned) Missing(func(string, bool) []int32) []string { return nil }

func TestLoadNamesWhatIsWrong(t *testing.T) {
	dir := folder(t, map[string]string{"empty.txt": "", "blank.jsonl": "\n", "chat.jsonl": fmt.Sprintf(pairRow, "a", "b"),
		"mum.jsonl": `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]}`,
		"ok.txt":    "abc", "one.txt": "x"})
	noTemplate := model(64)
	noTemplate.Template = func() (Template, error) { return nil, chat.ErrNoTemplate }
	mum := model(64)
	mum.Template = func() (Template, error) { return nothingLearned{}, nil }
	short := model(64)
	short.Encoder, short.EOS = onlyFirst{}, data.None
	for name, c := range map[string]struct {
		config Config
		model  Model
		want   string
	}{
		"an empty file":      {Config{Paths: []string{"empty.txt"}}, model(64), "empty.txt holds no text"},
		"blank lines":        {Config{Paths: []string{"blank.jsonl"}}, model(64), "blank.jsonl holds no text"},
		"nothing to predict": {Config{Paths: []string{"one.txt"}}, short, "too short to learn from"},
		"no template": {Config{Paths: []string{"chat.jsonl"}}, noTemplate,
			"chat.jsonl:1 is a conversation: the model has no chat template"},
		"no template, skipping": {Config{Paths: []string{"chat.jsonl"}, SkipBadRows: true}, noTemplate,
			"the model has no chat template"},
		"nothing fits": {Config{Paths: []string{"chat.jsonl"}}, model(10),
			"no example has anything to learn; raise trainer.Config.Seq"},
		"empty answers": {Config{Paths: []string{"mum.jsonl"}}, mum,
			"mum.jsonl: no example has anything to learn: what the assistant says is empty in all of them"},
		"evaluation data": {Config{Paths: []string{"ok.txt"}, Eval: []string{"empty.txt"}}, model(64),
			"evaluation data: "},
		"an unknown format": {Config{Paths: []string{"ok.txt"}, Format: "xml"}, model(64),
			`corpus.Config.Format is "xml"`},
		"an unknown template": {Config{Paths: []string{"ok.txt"}, Template: "nonesuch"}, model(64),
			`corpus.Config.Template is "nonesuch"`},
		"another format": {Config{Paths: []string{"ok.txt"}, Format: "alpaca"}, model(64),
			"plain text is not of the format alpaca"},
		"a row of one token":       {Config{Paths: []string{"ok.txt"}}, model(1), "2 or more"},
		"a file that is not there": {Config{Paths: []string{"no.txt"}}, model(64), "no.txt does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, list := range [][]string{c.config.Paths, c.config.Eval} {
				for i := range list {
					list[i] = filepath.Join(dir, list[i])
				}
			}
			if _, err := Load(t.Context(), c.config, c.model); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// onlyFirst encodes every text as one token.
type onlyFirst struct{}

func (onlyFirst) Encode(string, bool) []int32 { return []int32{5} }

func TestDocumentsEndOnce(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.txt": "ab"}), "a.txt")
	for _, c := range []struct {
		encoder letters
		eos     int32
		want    string
	}{{letters{}, eos, "^[ab$]"}, {letters{end: []int32{eos}}, eos, "^[ab$]"}, {letters{}, data.None, "^[ab]"}} {
		m := model(16)
		m.Encoder, m.EOS = c.encoder, c.eos
		if got := text(t, load(t, Config{Paths: []string{path}}, m).Train, 0); got != c.want {
			t.Errorf("%v: %q, want %q", c, got, c.want)
		}
	}
}

func TestLoadingCanBeInterrupted(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.txt": "ab"}), "a.txt")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(ctx, Config{Paths: []string{path}}, model(16)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Twenty examples are enough to hold out one of them; of fewer, a row is.
func TestHoldingOut(t *testing.T) {
	for _, n := range []int{1, 19, 20, 60, 3000} {
		lines := ""
		for i := range n {
			lines += fmt.Sprintf(pairRow, "q", strings.Repeat("x", 1+i%7))
		}
		path := filepath.Join(folder(t, map[string]string{"a.jsonl": lines}), "a.jsonl")
		corpus := load(t, Config{Paths: []string{path}, NoPacking: true}, model(32))
		want := min(max(n/20, 1), 100)
		if n == 1 {
			want = 0
		}
		if train, eval := corpus.Train.Len(), corpus.Eval.Len(); train+eval != n || eval != want {
			t.Errorf("of %d: %d to train on and %d to evaluate on, want %d", n, train, eval, want)
		}
	}
}

// What is held out is a share or a number, of the examples or of the rows.
func TestHoldingOutAsMuchAsIsAsked(t *testing.T) {
	lines := strings.Repeat(fmt.Sprintf(pairRow, "q", "x"), 40)
	text := strings.Repeat("x", 400)
	dir := folder(t, map[string]string{"a.jsonl": lines, "a.txt": text})
	for _, c := range []struct {
		file        string
		size        float64
		train, eval int
	}{{"a.jsonl", 0, 40, 0}, {"a.jsonl", 0.25, 30, 10}, {"a.jsonl", 1, 39, 1}, {"a.jsonl", 39, 1, 39},
		{"a.jsonl", 0.001, 39, 1},
		{"a.txt", 0, 41, 0}, {"a.txt", 0.5, 20, 21}, {"a.txt", 7, 34, 7}} {
		m := model(32)
		if c.file == "a.txt" {
			m.Seq = 10
		}
		corpus := load(t, Config{Paths: []string{filepath.Join(dir, c.file)}, NoPacking: c.file == "a.jsonl",
			EvalSize: &c.size}, m)
		if train, eval := corpus.Train.Len(), corpus.Eval.Len(); train != c.train || eval != c.eval {
			t.Errorf("%s, %g: %d to train on and %d to evaluate on, want %d and %d", c.file, c.size, train, eval, c.train,
				c.eval)
		}
	}
}

// A number is one of examples, also where they are few and share rows.
func TestHoldingOutANumberOfFewExamples(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": strings.Repeat(fmt.Sprintf(pairRow, "q", "x"), 15)}),
		"a.jsonl")
	size := 3.0
	corpus := load(t, Config{Paths: []string{path}, EvalSize: &size}, model(64))
	held := 0
	for i := range corpus.Eval.Len() {
		held += len(data.Examples(corpus.Eval, i))
	}
	if held != 3 {
		t.Errorf("%d of 15 examples are held out, want 3", held)
	}
}

func TestHoldingOutTooMuchIsRefused(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": strings.Repeat(fmt.Sprintf(pairRow, "q", "x"), 40)}),
		"a.jsonl")
	for _, c := range []struct {
		size float64
		eval []string
		want string
	}{
		{40, nil, "corpus.Config.EvalSize is 40, but there are 40 examples"},
		{-1, nil, "corpus.Config.EvalSize is -1, must not be negative"},
		{2.5, nil, "corpus.Config.EvalSize is 2.5, must be a share below 1 or a whole number"},
		{math.NaN(), nil, "corpus.Config.EvalSize is NaN"},
		{0.1, []string{path}, "corpus.Config.EvalSize is given with corpus.Config.Eval"},
	} {
		_, err := Load(t.Context(), Config{Paths: []string{path}, Eval: c.eval, EvalSize: &c.size}, model(32))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%g: error %v, want %q", c.size, err, c.want)
		}
	}
	half := 0.5
	one := Config{Paths: []string{path}, MaxSamples: 1, EvalSize: &half}
	if _, err := Load(t.Context(), one, model(32)); err == nil ||
		!strings.Contains(err.Error(), "EvalSize is 0.5, but nothing can be held out of one example") {
		t.Errorf("of one example: error %v", err)
	}
	if one.EvalSize = nil; load(t, one, model(32)).Eval.Len() != 0 {
		t.Error("one example is held out")
	}
}

// The limit is one of each data set, whatever files it has, and what is behind it is not
// even read.
func TestMaxSamplesLimitsEachDataSet(t *testing.T) {
	dir := folder(t, map[string]string{
		"set/a.jsonl": strings.Repeat(fmt.Sprintf(pairRow, "q", "x"), 2),
		"set/b.jsonl": strings.Repeat(fmt.Sprintf(pairRow, "q", "x"), 2) + "{broken",
		"set/c.jsonl": "{broken",
		"d.jsonl":     strings.Repeat(fmt.Sprintf(pairRow, "q", "x"), 9),
		"e.jsonl":     fmt.Sprintf(pairRow, "q", "x"),
	})
	zero := 0.0
	corpus := load(t, Config{Paths: []string{filepath.Join(dir, "set"), filepath.Join(dir, "d.jsonl@2"),
		filepath.Join(dir, "e.jsonl")},
		NoPacking: true, EvalSize: &zero, MaxSamples: 4}, model(32))
	if r := corpus.Report; r.Examples != 4+4+1 || r.TrainRows != 4+8+1 || len(r.Sources) != 4 {
		t.Errorf("report %+v", r)
	}
	if _, err := Load(t.Context(), Config{Paths: []string{dir}, MaxSamples: -1}, model(32)); err == nil ||
		!strings.Contains(err.Error(), "corpus.Config.MaxSamples is -1") {
		t.Errorf("error %v", err)
	}
}

func TestExamplesAreKnownByTheirPlace(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": fmt.Sprintf(pairRow, "a", "b") +
		fmt.Sprintf(pairRow, "c", "d")}), "a.jsonl")
	corpus := load(t, Config{Paths: []string{path}}, model(32))
	at, parts, err := corpus.Example(1)
	if err != nil || len(parts) != 1 {
		t.Fatalf("%v, %v", parts, err)
	}
	ids, learn := parts[0].IDs, parts[0].Learn
	if at.String() != path+":2" || string(byte(ids[5])) != "c" || slices.Contains(learn[:17], true) ||
		!learn[17] {
		t.Errorf("%v %v %v %v", at, ids, learn, err)
	}
}

// A text without a conversation needs no template, and none can be wrong for it.
func TestTokensThatTheTemplateWritesAndTheTokenizerLacks(t *testing.T) {
	dir := folder(t, map[string]string{"chat.jsonl": fmt.Sprintf(pairRow, "a", "b"), "text.txt": "some words"})
	for _, tt := range []struct {
		name, file string
		encoder    letters
		want       []string
	}{
		{"a tokenizer with the token", "chat.jsonl", letters{}, nil},
		{"one without", "chat.jsonl", letters{end: []int32{9}}, []string{"|"}},
		{"no conversation", "text.txt", letters{end: []int32{9}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := model(64)
			m.Encoder = tt.encoder
			if got := load(t, Config{Paths: []string{filepath.Join(dir, tt.file)}}, m).Report.Missing; !slices.Equal(got,
				tt.want) {
				t.Errorf("missing %q, want %q", got, tt.want)
			}
		})
	}
}

// untold is a template that does not say whose words are whose.
type untold struct{ plain }

func (u untold) Spans(c chat.Conversation) ([]chat.Span, error) {
	spans, err := u.plain.Spans(c)
	for i := range spans {
		spans[i].Message = -1
	}
	return spans, err
}

func TestMessagesThatCannotBeToldApartAreNotMuted(t *testing.T) {
	row := strings.ReplaceAll(talkRow, "\n", " ") + "\n"
	path := filepath.Join(folder(t, map[string]string{"a.jsonl": row}), "a.jsonl")
	m := model(64)
	m.Template = func() (Template, error) { return untold{}, nil }
	load(t, Config{Paths: []string{path}}, m)
	if _, err := Load(t.Context(), Config{Paths: []string{path}, Talk: Talk{MaskHistory: true}}, m); err == nil ||
		!strings.Contains(err.Error(), "does not keep the assistant's messages apart") {
		t.Errorf("error %v", err)
	}
}

// talkRow has two answers, the first of them muted on request, and no system prompt.
const talkRow = `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}`

func TestTalk(t *testing.T) {
	row := strings.ReplaceAll(talkRow, "\n", " ") + "\n"
	system := strings.Replace(row, `[{`, `[{"role": "system", "content": "own"}, {`, 1)
	for name, c := range map[string]struct {
		row, want string
		talk      Talk
	}{
		"the last answer alone": {row, "user>a|assistant>b|user>c|assistant>[d|]", Talk{MaskHistory: true}},
		"a system prompt":       {row, "system>s|user>a|assistant>[b|]user>c|assistant>[d|]", Talk{System: "s"}},
		"one that is there":     {system, "system>own|user>a|assistant>[b|]user>c|assistant>[d|]", Talk{System: "s"}},
		"both": {row, "system>s|user>a|assistant>b|user>c|assistant>[d|]",
			Talk{System: "s", MaskHistory: true}},
		"both, and a weight of 0": {strings.Replace(row, `"b"`, `"b", "weight": 0`, 1),
			"system>s|user>a|assistant>b|user>c|assistant>[d|]", Talk{System: "s"}},
		"variables": {row, "think=false|user>a|assistant>[b|]user>c|assistant>[d|]",
			Talk{TemplateArgs: []string{"think=false"}}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folder(t, map[string]string{"a.jsonl": c.row}), "a.jsonl")
			corpus := load(t, Config{Paths: []string{path}, Talk: c.talk}, model(64))
			if got := texts(t, corpus.Train); !slices.Equal(got, []string{c.want}) {
				t.Errorf("rows %q, want %q", got, c.want)
			}
		})
	}
	if err := (Config{TrainOnPrompt: true, Talk: Talk{MaskHistory: true}}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "leave one of them out") {
		t.Errorf("all of a conversation and its last answer alone: error %v", err)
	}
	for args, want := range map[string]string{"a": "want name=value", "tools=1": "its own tools", "a=1 a=2": "a twice"} {
		if err := (Talk{TemplateArgs: strings.Fields(args)}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
}

// TestInterleaving: the numbers are those of interleave_datasets in Hugging Face's datasets.
func TestInterleaving(t *testing.T) {
	for name, c := range map[string]struct {
		how  Interleaving
		sets [][]int
		want []int // nil for what is drawn at random
	}{
		"until the shortest ends": {Interleaving{Mix: MixUnder}, [][]int{{0, 1, 2}, {10, 11}}, []int{0, 10, 1, 11}},
		"until the longest ends":  {Interleaving{Mix: MixOver}, [][]int{{0, 1, 2}, {10, 11}}, []int{0, 10, 1, 11, 2, 10}},
		"nearly all of the first": {Interleaving{Mix: MixUnder, Probs: []float64{1 - 1e-9, 1e-9}}, [][]int{{0, 1, 2}, {10}},
			[]int{0, 1, 2}},
		"under, by chance": {Interleaving{Mix: MixUnder, Probs: []float64{0.75, 0.25}}, [][]int{count(3000), count(3000)},
			nil},
		"over, by chance": {Interleaving{Mix: MixOver, Probs: []float64{0.75, 0.25}}, [][]int{count(3000), count(1000)},
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.sets[0] {
				c.sets[0][i] = -c.sets[0][i] // to be told apart
			}
			for i := range c.want {
				if c.want[i] < 10 {
					c.want[i] = -c.want[i]
				}
			}
			got, err := c.how.examples(c.sets, 7)
			if err != nil {
				t.Fatal(err)
			}
			if c.want != nil {
				if !slices.Equal(got, c.want) {
					t.Errorf("%v, want %v", got, c.want)
				}
				return
			}
			first, seen := 0, map[int]bool{}
			for _, e := range got {
				seen[e] = true
				if e < 0 {
					first++
				}
			}
			if share := float64(first) / float64(len(got)); !(math.Abs(share-0.75) <= 0.03) {
				t.Errorf("%g of %d are of the first", share, len(got))
			}
			if all := len(seen) >= 3998; c.how.Mix == MixOver && !all {
				t.Errorf("%d examples seen", len(seen))
			}
			if again, _ := c.how.examples(c.sets, 7); !slices.Equal(again, got) {
				t.Error("the same seed draws others")
			}
		})
	}
}

func count(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func TestInterleavingIsChecked(t *testing.T) {
	dir := folder(t, map[string]string{"a.jsonl": strings.Repeat(fmt.Sprintf(pairRow, "q", "x"), 30),
		"b.jsonl": strings.Repeat(fmt.Sprintf(pairRow, "q", "y"), 4)})
	paths := []string{filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")}
	for _, c := range []struct {
		how  Interleaving
		want string
	}{
		{Interleaving{Mix: "stir"}, "corpus.Interleaving.Mix is \"stir\"; it takes concat, interleave_under"},
		{Interleaving{Probs: []float64{0.5, 0.5}}, "are for interleaving"},
		{Interleaving{Mix: MixOver, Probs: []float64{0.5, 0.6}}, "come to 1.1"},
		{Interleaving{Mix: MixOver, Probs: []float64{1.5, -0.5}}, "has -0.5; each must be above 0"},
		{Interleaving{Mix: MixOver, Probs: []float64{1}}, "1 numbers for 2 data sets"},
	} {
		if _, err := Load(t.Context(), Config{Paths: paths, Mixing: c.how}, model(32)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.how, err, c.want)
		}
	}
	zero := 0.0
	corpus := load(t, Config{Paths: paths, NoPacking: true, EvalSize: &zero, Mixing: Interleaving{Mix: MixUnder}},
		model(32))
	if n := corpus.Train.Len(); n != 8 {
		t.Errorf("%d rows, want 4 of each", n)
	}
}
