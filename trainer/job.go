package trainer

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Job is a training run with its inputs in memory, ready to start.
type Job struct {
	Config   Config
	Model    *models.Model
	Memory   core.Memory     // parameters, activations and gradients
	Registry *core.Registry  // the kernels; nil for none
	Measure  measure.Options // how auto measures them
	Train    []data.Row
	Eval     []data.Row
	Files    []File // copied into the saved folder: the tokenizer and what belongs to it
	Hooks    Hooks
	Abort    <-chan struct{} // closing it makes Run give up at once, saving nothing more; may be nil

	// Resume makes Run go on from a checkpoint, as if the run had never ended: the same
	// losses and weights, to the bit, and the same log but for the times. The job is made
	// as that of the whole run was: the model has the weights that it had at first. Config
	// is that of the checkpoint but for what Resume.Check lets pass.
	Resume *Resume
}

// File is a file of the saved folder.
type File struct {
	Name string
	Data []byte
}

// When there is no evaluation data, a twentieth of the documents is kept for it, or of
// the rows of a single document; but no more than this many, because evaluations take
// time and the loss of so many hardly moves with more.
const (
	heldOut     = 0.05
	mostHeldOut = 100
)

// holdOut splits items into those to train on and those kept for evaluation.
func holdOut[T any](items []T, seed uint64) (train, eval []T, err error) {
	return data.HoldOut(items, min(heldOut, mostHeldOut/float64(len(items))), seed)
}

// Load reads the model folder and the data that the configuration names.
func Load(c Config, mem core.Memory) (*Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	tok, err := tokenizer.Load(c.Model)
	if err != nil {
		return nil, err
	}
	m, err := models.LoadWith(c.Model, mem, models.LoadOptions{LoRA: c.LoRA, Seed: c.Seed})
	if err != nil {
		return nil, err
	}
	j := &Job{Config: c, Model: m, Memory: mem}
	if err := j.read(tok); err != nil {
		m.Free()
		return nil, err
	}
	return j, nil
}

func (j *Job) read(tok *tokenizer.Tokenizer) error {
	c, limit := j.Config, j.Model.Config.MaxPositionEmbeddings
	if c.Seq > limit {
		return fmt.Errorf("--seq is %d, but the model's max_position_embeddings is %d: choose at most that", c.Seq, limit)
	}
	if tok.VocabSize() > j.Model.Vocab() {
		return fmt.Errorf("%s: the tokenizer has %d tokens, but the model's vocab_size is %d: they do not belong together",
			c.Model, tok.VocabSize(), j.Model.Vocab())
	}
	train, eval, err := documents(c)
	if err != nil {
		return err
	}
	if j.Train, err = rows(tok, train, c.Seq); err != nil {
		return fmt.Errorf("%s: %w", c.Data, err)
	}
	if eval != nil {
		if j.Eval, err = rows(tok, eval, c.Seq); err != nil {
			return fmt.Errorf("evaluation data: %w", err)
		}
	} else if len(j.Train) > 1 {
		if j.Train, j.Eval, err = holdOut(j.Train, c.Seed); err != nil {
			return err
		}
	}
	j.Files, err = tokenizerFiles(c.Model)
	return err
}

// documents reads the training data and the evaluation data. The latter is nil when it
// has to be cut from the rows, because the data is a single document.
func documents(c Config) (train, eval []data.Document, err error) {
	if train, err = data.ReadDocuments(c.Data); err != nil {
		return nil, nil, err
	}
	if c.EvalData != "" {
		eval, err = data.ReadDocuments(c.EvalData)
		return train, eval, err
	}
	const enough = 20 // documents, so that the share held out is at least one whole one
	if len(train) < enough {
		return train, nil, nil
	}
	return holdOut(train, c.Seed)
}

func rows(tok *tokenizer.Tokenizer, docs []data.Document, seq int) ([]data.Row, error) {
	eos, pad := data.None, data.None
	if id, ok := tok.EOS(); ok {
		eos = id
	}
	if id, ok := tok.Pad(); ok {
		pad = id
	}
	return data.Pack(data.Tokenize(tok, docs, eos), seq, pad)
}
