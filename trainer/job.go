package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Job is a training run with its model in memory and its data read, ready to start.
type Job struct {
	Config   Config
	Model    *models.Model
	Memory   core.Memory     // parameters, activations and gradients
	Registry *core.Registry  // the kernels; nil for none
	Measure  measure.Options // how auto measures them
	Train    data.Rows
	Eval     data.Rows      // nil for no evaluation
	Sets     []corpus.Set   // what Eval is made of, in its order, if these are to be told apart; nil for one set
	Corpus   *corpus.Corpus // where the rows come from; nil if not from files
	// Tokenizer is for Config.Metric, which compares texts; nil without one.
	Tokenizer *tokenizer.Tokenizer
	Files     []File // copied into the saved folder: the tokenizer and what belongs to it
	Hooks     Hooks
	Journal   []journal.Sink     // besides that in the output folder, which every run keeps
	Claim     *checkpoint.Claim  // to Config.Out, where the caller has it already; nil lets Run claim it
	World     *distributed.World // the ranks that train together, each with a job of its own; nil for one that trains alone
	Abort     <-chan struct{}    // closing it makes Run give up at once, saving nothing more; may be nil

	// Resume makes Run go on from a checkpoint, as if the run had never ended: the same
	// losses and weights, to the bit, and the same log but for the times. The job is made
	// as that of the whole run was: the model has the weights that it had at first. Config
	// is that of the checkpoint but for what Resume.Check lets pass.
	Resume *Resume

	// Unsaved is asked when the model cannot be saved; see Unsaved. Without it a model that
	// has no place at all is an error, and still in Model.
	Unsaved func(context.Context, Unsaved) (again bool)
}

// rowsIn returns the number of rows, of which nil has none.
func rowsIn(rows data.Rows) int {
	if rows == nil {
		return 0
	}
	return rows.Len()
}

// File is a file of the saved folder.
type File struct {
	Name string
	Data []byte
}

// Load reads the model folder and the data that the configuration names. A Seq that is left to
// its default is no more than the model can take. Close the job.
func Load(ctx context.Context, c Config, mem core.Memory) (*Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Model == "" {
		return nil, errors.New("trainer.Config.Model is empty: name a Hugging Face model folder")
	}
	fit := c.Seq == 0 && !c.complete
	c = c.WithDefaults()
	tok, vocabulary, extended, err := c.vocabulary()
	if err != nil {
		return nil, damage(c, err)
	}
	m, err := models.LoadWith(c.Model, mem, models.LoadOptions{LoRA: c.LoRA, Seed: c.Seed, Objective: c.Objective,
		Train: c.besides(vocabulary), Vocabulary: vocabulary, Narrow: c.Optimizer.narrow(), Check: c.checkWeights})
	if err != nil {
		return nil, err
	}
	if limit := m.Config.MaxPositionEmbeddings; fit && limit > 0 {
		c.Seq = min(c.Seq, c.RowOf(limit))
	}
	j := &Job{Config: c, Model: m, Memory: mem}
	if err := j.read(ctx, tok); err != nil {
		m.Free()
		return nil, err
	}
	if extended != nil {
		j.Files = withTokenizer(j.Files, extended)
	}
	return j, nil
}

// damage returns the error of a file that differs from its checksum, if there is one, in
// place of what came of it.
func damage(c Config, err error) error {
	return cmp.Or(models.Verify(c.Model, c.LoRA.Adapter), err)
}

// Close removes what the data took on disk. The job's rows cannot be read then.
func (j *Job) Close() error {
	if j.Corpus == nil {
		return nil
	}
	return j.Corpus.Close()
}

func (j *Job) read(ctx context.Context, tok *tokenizer.Tokenizer) (err error) {
	c := j.Config
	if err := c.CheckLength(j.Model); err != nil {
		return err
	}
	if tok.VocabSize() > j.Model.Vocab() {
		return fmt.Errorf("%s: the tokenizer has %d tokens, but the model's vocab_size is %d: they do not belong together",
			c.Model, tok.VocabSize(), j.Model.Vocab())
	}
	if j.Files, err = savedFiles(c); err != nil {
		return err
	}
	if j.Corpus, err = corpus.Load(ctx, c.Data, DataModel(c, tok)); err != nil {
		return err
	}
	if j.Corpus.Seq != c.Seq {
		j.Config.Data.Cutoff = cmp.Or(c.Data.Cutoff, c.Seq)
	}
	j.Train, j.Eval, j.Config.Seq = j.Corpus.Train, j.Corpus.Eval, j.Corpus.Seq
	j.Sets, j.Tokenizer = j.Corpus.Sets, tok
	return nil
}

// savedFiles are those of the tokenizer, with the chat template that the model is trained on.
func savedFiles(c Config) ([]File, error) {
	if c.Data.Template == "" {
		return folderFiles(c.Model, c.LoRA.Adapter)
	}
	files, err := tokenizerFiles(c.Model)
	if err != nil {
		return nil, err
	}
	text, err := chat.Source(c.Data.Template)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f File) bool { return chat.IsTemplate(f.Name) })
	return append(files, File{templateFile, []byte(text)}), nil
}

// Deal returns what deals the rows to train on, and the lengths below Seq for which graphs are worth making. Rows that
// examples share have none: they are full.
func (j *Job) Deal() (l *data.Loader, shorter []int, err error) {
	c := j.Config
	if l, err = data.NewLoader(j.Train, c.Batch, c.Seed); err != nil || !c.Data.NoPacking {
		return l, nil, err
	}
	if c.GroupByLength {
		if err := l.Group(c.Batch * c.Accumulate); err != nil {
			return nil, nil, err
		}
	}
	longest, err := l.Longest()
	if err != nil {
		return nil, nil, err
	}
	lengths := data.Lengths(longest, c.Seq)
	return l, lengths[:len(lengths)-1], nil
}

// CheckEval returns an error if what the configuration asks for takes rows to evaluate on, and there are none: of data
// with a single row, nothing is held out.
func (j *Job) CheckEval() error {
	if rowsIn(j.Eval) > 0 {
		return nil
	}
	return j.Config.needEvaluations("no rows to evaluate on, which corpus.Config.Eval would name")
}

// Counted returns the most tokens that count in the loss of a batch, of the first thousand. l is what Deal has returned.
func (j *Job) Counted(l *data.Loader) (int, error) {
	const looked = 1000
	return l.MostTargets(min(looked, l.BatchesPerEpoch(), j.Schedule().Steps*max(j.Config.Accumulate, 1)))
}

// DataModel returns what the rows of a run depend on besides its data.
func DataModel(c Config, tok *tokenizer.Tokenizer) corpus.Model {
	m := corpus.Model{Encoder: tok, EOS: data.None, Pad: data.None, Seq: cmp.Or(c.Data.Cutoff, c.Seq), Seed: c.Seed, Kind: c.kind(),
		Forks: c.forks}
	if id, ok := tok.EOS(); ok {
		m.EOS = id
	}
	if id, ok := tok.Pad(); ok {
		m.Pad = id
	}
	m.Template = func() (corpus.Template, error) { return ChatTemplate(c.Model, c.LoRA.Adapter, c.Data.Template) }
	return m
}
