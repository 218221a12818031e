package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/metric"
)

// setsOf returns the sets of the data; one without a name if there are not several.
func setsOf(held *corpus.Corpus) []corpus.Set {
	if len(held.Sets) > 0 {
		return held.Sets
	}
	return []corpus.Set{{Rows: held.Eval}}
}

// questions returns what the data asks, for a metric that needs answers.
func (e *evalFlags) questions(held *corpus.Corpus, in *inference) (all []metric.Question, err error) {
	if e.Metric.Name == "" || !e.Metric.Name.Writes() {
		return nil, nil
	}
	for _, set := range setsOf(held) {
		asked, err := metric.Questions(set.Name, set.Rows, in.tokenizer)
		if err != nil {
			return nil, err
		}
		all = append(all, asked...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--metric %s: %s has no conversations, and asks nothing; %s takes texts", e.Metric.Name,
			strings.Join(e.Data.Eval, ", "), metric.TokenAccuracy)
	}
	return all, nil
}

// evalSets measures the loss of each set and of all.
func (a *app) evalSets(ctx context.Context, in *inference, e *evalFlags, held *corpus.Corpus, r *evaluation) error {
	sum := 0.0
	for _, set := range setsOf(held) {
		one, found := trainer.SetEval{Name: set.Name}, []metric.Prediction(nil)
		if err := a.evalLoss(ctx, in, e, set.Rows, &one, &found); err != nil {
			return err
		}
		r.Predictions = append(r.Predictions, found...)
		sum += one.Loss * float64(one.Targets)
		r.Targets += one.Targets
		if r.Loss = one.Loss; held.Sets != nil {
			r.Sets, r.Loss = append(r.Sets, one), sum/float64(r.Targets)
		}
	}
	r.Perplexity = math.Exp(r.Loss)
	return nil
}

// noteEvery is how long answering is silent.
const noteEvery = 5 * time.Second

// score lets the model answer, where that is scored, and says how well it did.
func (a *app) score(ctx context.Context, in *inference, e *evalFlags, asked []metric.Question, r *evaluation) error {
	name := e.Metric.Name
	if name.Writes() {
		defaults, err := generate.LoadDefaults(e.Model)
		if err != nil {
			return err
		}
		w := metric.Writer{Model: in.model, Tokenizer: in.tokenizer, Memory: in.memory,
			Size: new(engineSize).config(in.model), EOS: defaults.EOS, Most: e.Metric.MaxNewTokens,
			Check: in.check, Report: in.report}
		if id, ok := in.tokenizer.EOS(); ok {
			w.EOS = append(w.EOS, id)
		}
		sum, last := 0.0, time.Now()
		r.Predictions, err = w.Write(ctx, asked, func(i int, p *metric.Prediction) {
			name.Judge(p)
			sum += p.Score
			if n := i + 1; time.Since(last) > noteEvery {
				a.note("%s: %.4f after %d, %d to go", name, sum/float64(n), n, len(asked)-n)
				last = time.Now()
			}
		})
		if err != nil {
			return err
		}
	}
	mean := name.Mean(r.Predictions)
	r.Metric, r.Score = name, &mean
	for i := range r.Sets {
		r.Sets[i].Score(name, r.Predictions)
	}
	err := e.writePredictions(r)
	if e.exact {
		r.exactly()
	}
	return err
}

// exactly puts the result of exact_match in the form of --exact-match, and in no other.
func (r *evaluation) exactly() {
	defer func() { r.Metric, r.Score, r.Predictions = "", nil, nil }()
	r.Right, r.Asked = new(int), new(int)
	for _, p := range r.Predictions {
		one := answer{Want: p.Expected, Got: p.Generated, Right: p.Score == 1}
		if *r.Asked++; one.Right {
			*r.Right++
		}
		r.Answers = append(r.Answers, one)
	}
}

// writePredictions writes the file that is asked for.
func (e *evalFlags) writePredictions(r *evaluation) error {
	if e.predictions == "" {
		return nil
	}
	var text bytes.Buffer
	if err := metric.WriteLines(&text, r.Predictions); err != nil {
		return err
	}
	if err := writeWhole(e.predictions, text.Bytes()); err != nil {
		return fmt.Errorf("--predictions: %w", err)
	}
	return nil
}
