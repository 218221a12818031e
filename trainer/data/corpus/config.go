// Package corpus brings data files to the rows that a model is trained on: it finds the
// files, reads and tokenises their examples, holds some out, and packs the rest.
//
// Rows are read one at a time, and tokens go to a temporary file once they are many, so
// that the size of the files does not matter; see data.Store and data.Packed for what an
// example takes in memory.
package corpus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/nearest"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/data/records"
)

// Config says which data a run has, and how it is read. The zero value of a field that has
// a default means the default.
type Config struct {
	// Paths are files, folders, or names in the dataset_info.json of Dir; each may have a
	// weight, as in notes.jsonl@0.3, and several may be in one string with commas between.
	Paths []string `json:"paths,omitempty"`
	// Eval is the same for evaluation, see ResolveEval. Without it, a part of the data is held out.
	Eval []string `json:"eval,omitempty"`
	// EvalSize is how much is held out without Eval: below 1 a share of the examples, or of
	// the rows if examples are few; from 1 on a number of examples, or of
	// the rows if there are few and no more than that. nil is the default.
	EvalSize *float64 `json:"eval_size,omitempty"`
	Dir      string   `json:"dataset_dir,omitempty"`

	Format        format.Format `json:"format,omitempty"`          // empty is format.Auto
	Template      string        `json:"template,omitempty"`        // a built-in chat template; empty: the model's
	TrainOnPrompt bool          `json:"train_on_prompt,omitempty"` // learn all of a conversation
	NoPacking     bool          `json:"no_packing,omitempty"`      // an example a row
	// Cutoff is the tokens of a row before NoPacking made rows as short as the examples allow: what is cut, is cut to fit
	// in that. A checkpoint has it, so that a run that goes on cuts alike; 0 is what a row has.
	Cutoff int `json:"cutoff,omitempty"`
	// of a text longer than a row, learn the beginning alone
	CutLong bool `json:"cut_long,omitempty"`
	// of two answers to one prompt, each has the prompt for itself, even where one for both gives the same
	RepeatPrompt bool `json:"repeat_prompt,omitempty"`
	SkipBadRows  bool `json:"skip_bad_rows,omitempty"` // leave them out and count them
	// read only so many examples of each data set; 0 for all
	MaxSamples int `json:"max_samples,omitempty"`

	Talk   Talk         `json:"talk,omitzero"`
	Mixing Interleaving `json:"mixing,omitzero"`
}

// Validate reports the field that makes no sense.
func (c Config) Validate() error {
	if c.MaxSamples < 0 {
		return fmt.Errorf("corpus.Config.MaxSamples is %d, must not be negative", c.MaxSamples)
	}
	if err := errors.Join(c.validateEvalSize(), c.Talk.Validate(), c.Mixing.Validate()); err != nil {
		return err
	}
	if c.TrainOnPrompt && c.Talk.MaskHistory {
		return errors.New("corpus.Config.TrainOnPrompt learns all of a conversation, and corpus.Talk.MaskHistory its last " +
			"answer alone: leave one of them out")
	}
	f := string(cmp.Or(c.Format, format.Auto))
	if err := nearest.OneOf("corpus.Config.Format", f, format.Formats()...); err != nil {
		return err
	}
	if c.Template != "" && !slices.Contains(chat.Names(), c.Template) {
		meant := ""
		if name, ok := nearest.Name(c.Template, chat.Names()); ok {
			meant = "; did you mean " + name + "?"
		}
		return fmt.Errorf("corpus.Config.Template is %q; the built-in chat templates are %s, and without one the model's "+
			"own is used%s", c.Template, strings.Join(chat.Names(), ", "), meant)
	}
	return nil
}

func (c Config) validateEvalSize() error {
	if c.EvalSize == nil {
		return nil
	}
	switch n := *c.EvalSize; {
	case !(n >= 0) || math.IsInf(n, 0):
		return fmt.Errorf("corpus.Config.EvalSize is %g, must not be negative", n)
	case n > 1 && n != math.Trunc(n):
		return fmt.Errorf("corpus.Config.EvalSize is %g, must be a share below 1 or a whole number of examples", n)
	case n > 0 && len(c.Eval) > 0:
		return errors.New("corpus.Config.EvalSize is given with corpus.Config.Eval, beside which nothing is held out: " +
			"leave one of them out")
	}
	return nil
}

// Encoder is the half of a tokenizer that this package needs.
type Encoder interface {
	// Encode returns the token ids of text. With addSpecial it adds what the model
	// expects around a text, such as a token that marks its beginning.
	Encode(text string, addSpecial bool) []int32
}

// Template writes a conversation as the text that the model expects.
type Template interface {
	Spans(c chat.Conversation) ([]chat.Span, error)
	// Missing returns the special tokens that it writes and the encoder does not have.
	Missing(encode func(text string, addSpecial bool) []int32) []string
}

// Model is what the rows depend on besides the data.
type Model struct {
	Encoder  Encoder
	Template func() (Template, error) // is asked for it when there is a conversation
	EOS      int32                    // ends a document; data.None for nothing
	Pad      int32                    // fills up rows; data.None for any token
	Seq      int                      // tokens of a row
	Seed     uint64                   // of what is sampled and held out
	Kind     Kind                     // of examples
	// Forks says where two answers may have their prompt once; nil for nowhere. It is asked when there is a pair.
	Forks func() Forks
}

// Forks are where a row may have what two answers begin with once: where training gives the same as with two copies.
type Forks struct {
	Longest int    // tokens of the first answer with its prompt, at most; 0 for no pair at all
	Why     string // not more
}

// Kind is what examples are for.
type Kind int

// The kinds of examples: texts and answers to follow, pairs of a better and a worse answer, or
// answers that are marked as good or bad.
const (
	Follow Kind = iota
	Pairs
	Marked
)

// Corpus is the rows of a run.
type Corpus struct {
	Train  data.Rows
	Eval   data.Rows // no rows if there was only one to hold out from
	Sets   []Set     // what Eval is made of, if that is several sets
	Seq    int       // tokens of a row: those of the longest example, if each has rows of its own
	Report Report

	store  *data.Store
	places []records.Place // of the first examples
}

// Close removes the temporary file, if there is one. The rows cannot be read then.
func (c *Corpus) Close() error { return c.store.Close() }

// Report counts what was read.
type Report struct {
	Sources []SourceReport `json:"sources"`

	Examples  int   `json:"examples"`   // documents and conversations that were read
	Tokens    int64 `json:"tokens"`     // of them, as far as they are used
	Learned   int64 `json:"learned"`    // to predict; rows, in which a document goes on, take one each
	Longest   int   `json:"longest"`    // tokens of the longest example, before it was cut
	Truncated int   `json:"truncated"`  // cut at the length of a row
	Empty     int   `json:"empty"`      // left out because, so cut, they have nothing to learn
	TrainRows int   `json:"train_rows"` // after packing
	EvalRows  int   `json:"eval_rows"`

	// Shared is how many of the tokens are in no row, because a prompt stands there once for two answers. Of the others,
	// Repeated pairs, RepeatedWhy says why they have it twice.
	Shared      int64  `json:"shared,omitempty"`
	Repeated    int    `json:"repeated_prompts,omitempty"`
	RepeatedWhy string `json:"repeated_why,omitempty"`

	Bad      int      `json:"bad_rows"`            // left out by SkipBadRows
	FirstBad []string `json:"first_bad,omitempty"` // what is wrong with the first of them

	// special tokens that the chat template writes and the tokenizer does not have
	Missing []string `json:"missing_tokens,omitempty"`
}

// SourceReport is what was read from one file.
type SourceReport struct {
	File     string        `json:"file"`
	Format   format.Format `json:"format"`
	Examples int           `json:"examples"`
}

// When there is no evaluation data, a twentieth of the examples is kept for it, or of the
// rows if there are few examples; but no more than this many, because evaluations take
// time and the loss of so many hardly moves with more.
const (
	heldOut     = 0.05
	mostHeldOut = 100
	// enough examples to hold out from, so that the share is at least one whole one
	enough = 20
)

// holdsOut reports whether there is anything to be held out.
func (c Config) holdsOut() bool { return len(c.Eval) == 0 && (c.EvalSize == nil || *c.EvalSize > 0) }

// rowsInstead reports whether so many examples are too few to hold out from, and rows are taken. A number that is
// asked for is one of examples, as long as it leaves some.
func (c Config) rowsInstead(examples int) bool {
	asked := c.EvalSize != nil && *c.EvalSize >= 1 && *c.EvalSize < float64(examples)
	return examples < enough && !asked
}

// holdOut splits examples, or rows, as the configuration says.
func holdOut[T any](c Config, items []T, seed uint64) (train, eval []T, err error) {
	n, size := len(items), heldOut
	if c.EvalSize != nil {
		size = *c.EvalSize
	} else if heldOut*float64(n) > mostHeldOut {
		size = mostHeldOut
	}
	if size >= 1 && size >= float64(n) {
		return nil, nil, fmt.Errorf("corpus.Config.EvalSize is %g, but there are %d examples or rows in all: hold out fewer",
			size, n)
	}
	return data.HoldOut(items, size, seed)
}

// Load reads the data that c names. Errors say which file and row is meant.
func Load(ctx context.Context, c Config, m Model) (_ *Corpus, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	train, err := Resolve(c.Paths, c.Dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	eval, err := ResolveEval(c.Eval, c.Dir)
	if err != nil {
		return nil, fmt.Errorf("evaluation data: %w", err)
	}
	if err := c.Mixing.fits(len(train)); err != nil {
		return nil, err
	}
	l := newLoader(c, m)
	defer func() {
		if err != nil {
			_ = l.store.Close() // the error at hand says more
		}
	}()
	corpus := &Corpus{store: l.store, Eval: data.Slice(nil)}
	mix, err := l.mix(ctx, train)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	var names []string
	var held [][]int // of each set
	if len(eval) > 0 {
		if names, held, err = l.evaluationSets(ctx, eval); err != nil {
			return nil, fmt.Errorf("evaluation data: %w", err)
		}
	} else if some, err := mix.holdOut(c, m.Seed); err != nil {
		return nil, err
	} else if some != nil {
		names, held = []string{""}, [][]int{some}
	}
	l.shorten()
	corpus.Seq = l.model.Seq
	examples, err := mix.examples(c.Mixing, m.Seed)
	if err == nil {
		corpus.Train, err = l.pack(examples)
	}
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	switch {
	case held != nil:
		if corpus.Eval, corpus.Sets, err = l.packSets(names, held); err != nil {
			return nil, fmt.Errorf("evaluation data: %w", err)
		}
	case c.holdsOut() && corpus.Train.Len() > 1 && !mix.repeats(c.Mixing): // or a row would be in both
		if corpus.Train, corpus.Eval, err = holdOutRows(c, corpus.Train, m.Seed); err != nil {
			return nil, err
		}
	case c.holdsOut() && c.EvalSize != nil:
		return nil, fmt.Errorf("corpus.Config.EvalSize is %g, but nothing can be held out of one example, or one row: "+
			"leave it out, or name data to evaluate on with corpus.Config.Eval", *c.EvalSize)
	}
	corpus.Report, corpus.places = l.report, l.places
	corpus.Report.TrainRows, corpus.Report.EvalRows = corpus.Train.Len(), corpus.Eval.Len()
	return corpus, nil
}

// LoadEval reads the data that c has for evaluation, all of it and nothing else.
func LoadEval(ctx context.Context, c Config, m Model) (_ *Corpus, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	sources, err := ResolveEval(c.Eval, c.Dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	l := newLoader(c, m)
	corpus := &Corpus{store: l.store, Train: data.Slice(nil)}
	defer func() {
		if err != nil {
			_ = l.store.Close() // the error at hand says more
			err = fmt.Errorf("data: %w", err)
		}
	}()
	names, examples, err := l.evaluationSets(ctx, sources)
	if err != nil {
		return nil, err
	}
	if corpus.Eval, corpus.Sets, err = l.packSets(names, examples); err != nil {
		return nil, err
	}
	corpus.Report, corpus.places = l.report, l.places
	corpus.Report.EvalRows = corpus.Eval.Len()
	return corpus, nil
}

func holdOutRows(c Config, rows data.Rows, seed uint64) (train, eval data.Rows, err error) {
	numbers := make([]int, rows.Len())
	for i := range numbers {
		numbers[i] = i
	}
	kept, held, err := holdOut(c, numbers, seed)
	return data.Subset{Of: rows, Numbers: kept}, data.Subset{Of: rows, Numbers: held}, err
}

// Example returns example i in the order of reading, as it was tokenised, and where it
// stands; of examples far from the beginning the place is not known. It is one part, or two if it has
// two answers. There are Report.Examples of them.
func (c *Corpus) Example(i int) (at records.Place, parts []data.Part, err error) {
	if i < len(c.places) {
		at = c.places[i]
	}
	parts, err = c.store.Parts(i)
	return at, parts, err
}
