package trainer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed98097648/tune/internal/nearest"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/metric"
)

// Metric says how evaluations score answers, beside the loss.
type Metric struct {
	Name         metric.Name `json:"metric,omitempty"` // empty for none
	MaxNewTokens int         `json:"max_new_tokens"`   // the most tokens of an answer that is written
	// Best is what the best evaluation is the best by: the loss if it is empty or BestLoss, or Name.
	Best string `json:"best_metric,omitempty"`
}

// BestLoss is the value of Metric.Best for the loss.
const BestLoss = "loss"

// defaultNewTokens is how long an answer may be unless somebody says otherwise.
const defaultNewTokens = 256

// Answers returns how many tokens an answer may have with its question, 0 where none is written.
func (c Config) Answers() int {
	if c.Metric.Name == "" || !c.Metric.Name.Writes() || c.Checkpoints.NoEval {
		return 0
	}
	return c.Seq + c.Metric.MaxNewTokens
}

func (c Config) validateMetric() error {
	m := c.Metric
	switch err := nearest.OneOf("trainer.Metric.Name", string(m.Name), metric.Names()...); {
	case m.MaxNewTokens < 1:
		return fmt.Errorf("trainer.Metric.MaxNewTokens is %d, must be positive", m.MaxNewTokens)
	case m.Name != "" && err != nil:
		return err
	case m.Best != "" && m.Best != BestLoss && m.Best != string(m.Name):
		return fmt.Errorf("trainer.Metric.Best is %q, must be %s or what trainer.Metric.Name is, which is %q", m.Best, BestLoss,
			m.Name)
	case m.Name == "":
		return nil
	case c.Preference.Enabled():
		return errors.New("trainer.Metric.Name is for answers to follow; preference.Config.Stage has accuracies of its own: " +
			"leave it out")
	}
	return nil
}

// gain returns by how much an evaluation is better than another. One without a score, from a run before it had one,
// is worse than any with one.
func (m Metric) gain(before, now Eval) float64 {
	if m.Best == "" || m.Best == BestLoss {
		return before.Loss - now.Loss
	}
	was, ok := before.Scores[m.Best]
	if !ok {
		was = -1
	}
	return now.Scores[m.Best] - was
}

// scores are those of the evaluation at hand.
type scores struct {
	name      metric.Name
	questions []metric.Question // of this rank
	all       int               // of all ranks
	eos       []int32
	check     *crosscheck.Checker // counts tokens, not steps
	session   *session
	batch     int                   // of those that this rank has seen
	found     [][]metric.Prediction // of each question, or batch
}

// sets returns those of the evaluation data; one without a name if they are not told apart.
func (j *Job) sets() []corpus.Set {
	if len(j.Sets) > 0 {
		return j.Sets
	}
	return []corpus.Set{{Rows: j.Eval}}
}

// ask finds the questions of the held-out data, if there is to be a score.
func (r *session) ask() error {
	j, c := r.job, r.job.Config
	s := &r.scores
	*s = scores{name: c.Metric.Name, session: r, check: crosscheck.New(c.CheckEvery)}
	if s.name == "" || rowsIn(j.Eval) == 0 {
		s.name = ""
		return nil
	}
	if j.Tokenizer == nil {
		return errors.New("trainer.Metric.Name is given, but the job has no Tokenizer")
	}
	if !s.name.Writes() {
		return nil
	}
	if c.Model != "" {
		d, err := generate.LoadDefaults(c.Model)
		if err != nil {
			return err
		}
		s.eos = d.EOS
	}
	if id, ok := j.Tokenizer.EOS(); ok {
		s.eos = append(s.eos, id)
	}
	if err := j.World.Same("the tokens that end an answer differ, by the model's generation_config.json", s.eos); err != nil {
		return err
	}
	asked, err := j.Questions()
	for i, q := range asked {
		if i%j.World.Size() == j.World.Rank() {
			s.questions = append(s.questions, q)
		}
	}
	s.all = len(asked)
	return err
}

// Questions returns those of the held-out data that the metric has answers written to; none if there is no such metric,
// or nothing is held out. That no example asks anything is an error then.
func (j *Job) Questions() (all []metric.Question, err error) {
	name := j.Config.Metric.Name
	if name == "" || !name.Writes() || rowsIn(j.Eval) == 0 {
		return nil, nil
	}
	for _, set := range j.sets() {
		asked, err := metric.Questions(set.Name, set.Rows, j.Tokenizer)
		if err != nil {
			return nil, err
		}
		all = append(all, asked...)
	}
	if all == nil {
		return nil, fmt.Errorf("trainer.Metric.Name is %s, but no held-out example is a conversation that asks something; %s takes texts",
			name, metric.TokenAccuracy)
	}
	return all, nil
}

// evalBatches yields this rank's share of the held-out rows, whose batches are dealt in turn: no batch has rows of two
// sets.
func (r *session) evalBatches() (batches iter.Seq[data.Batch], failed func() error) {
	var err error
	rank, ranks := r.job.World.Rank(), r.job.World.Size()
	return func(yield func(data.Batch) bool) {
		before, done := 0, 0 // batches and rows of the sets before
		for _, set := range r.job.sets() {
			rows := r.follow("evaluating", set.Rows, done, rowsIn(r.job.Eval))
			done += rowsIn(set.Rows)
			some, failed := data.StreamPart(rows, r.batch, ((rank-before)%ranks+ranks)%ranks, ranks)
			before += r.batchesOf(set)
			for b := range some {
				if !yield(b) {
					return
				}
			}
			if err = failed(); err != nil {
				return
			}
		}
	}, func() error { return err }
}

// evaluate measures the loss and the score.
func (r *session) evaluate(ctx context.Context) (*Eval, error) {
	batches, failed := r.evalBatches()
	s := &r.scores
	s.batch, s.found = r.job.World.Rank(), nil
	loss, targets, err := r.engine.Evaluate(ctx, batches)
	// That rows cannot be read comes before what those that were read lack.
	if err = cmp.Or(agree(r.job.World, failed()), err); err != nil {
		return nil, err
	}
	e := &Eval{Step: r.state.Step, Loss: loss, Targets: targets, Metrics: r.engine.evalMetrics()}
	from := r.engine.eval.measured
	for _, set := range r.job.Sets {
		n := r.batchesOf(set)
		one := SetEval{Name: set.Name}
		one.Loss, one.Targets = meanOf(from[:n])
		from, e.Sets = from[n:], append(e.Sets, one)
	}
	if s.name == "" {
		return e, nil
	}
	all, err := s.gather(ctx)
	if err != nil {
		return nil, err
	}
	e.Scores = map[string]float64{string(s.name): s.name.Mean(all)}
	for i := range e.Sets {
		e.Sets[i].Score(s.name, all)
	}
	r.keep(all)
	return e, nil
}

// batchesOf counts those of a set.
func (r *session) batchesOf(set corpus.Set) int { return (rowsIn(set.Rows) + r.batch - 1) / r.batch }

// see takes what is the likeliest in a batch.
func (s *scores) see(b data.Batch, next []int32) {
	j, at := s.session.job, s.batch
	for _, set := range j.sets() {
		n := s.session.batchesOf(set)
		if at < n {
			s.found = append(s.found, metric.Tokens(set.Name, b, next, j.Tokenizer))
			break
		}
		at -= n
	}
	s.batch += j.World.Size()
}

// gather returns the predictions of all ranks, each with its score.
func (s *scores) gather(ctx context.Context) ([]metric.Prediction, error) {
	j, err := s.session.job, error(nil)
	if s.name.Writes() {
		err = s.write(ctx)
	}
	if err = agree(j.World, err); err != nil || j.World == nil {
		return slices.Concat(s.found...), err
	}
	mine, err := json.Marshal(s.found)
	if err = agree(j.World, err); err != nil {
		return nil, err
	}
	texts, err := j.World.Exchange("the answers of an evaluation", mine)
	if err != nil {
		return nil, err
	}
	ranks := make([][][]metric.Prediction, len(texts))
	for i, text := range texts {
		err = errors.Join(err, json.Unmarshal(text, &ranks[i]))
	}
	return slices.Concat(inTurn(ranks)...), err
}

// write lets the model answer this rank's questions.
func (s *scores) write(ctx context.Context) error {
	j := s.session.job
	if len(s.questions) == 0 {
		return nil
	}
	most := j.Config.Metric.MaxNewTokens
	w := metric.Writer{Model: j.Model, Tokenizer: j.Tokenizer, Memory: j.Memory, Size: metric.Fit(s.questions, most),
		EOS: s.eos, Most: most, Check: s.check}
	tell := func(done int) { call(j.Hooks.OnWork, Work{"answering", done, len(s.questions)}) }
	tell(0)
	all, err := w.Write(ctx, s.questions, func(i int, _ *metric.Prediction) { tell(i + 1) })
	for i := range all {
		s.name.Judge(&all[i])
		s.found = append(s.found, all[i:i+1])
	}
	return err
}

// PredictionsDir is the folder in the output folder with what each evaluation's answers were, where there is a
// metric: a file step-N.jsonl after N steps, one metric.Prediction a line.
const PredictionsDir = "predictions"

// keep writes the predictions into the output folder. That they cannot be written is no reason to lose the run.
func (r *session) keep(all []metric.Prediction) {
	dir := r.out.file(PredictionsDir)
	if dir == "" {
		return
	}
	var text bytes.Buffer
	err := metric.WriteLines(&text, all)
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err == nil {
		name := fmt.Sprintf("step-%d.jsonl", r.state.Step)
		err = checkpoint.WriteFileAtomic(filepath.Join(dir, name), text.Bytes(), 0o644)
	}
	if err != nil {
		call(r.job.Hooks.OnWarning, fmt.Errorf("the predictions after step %d are not kept: %w", r.state.Step, err))
	}
}
