package metric

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Writer lets a model answer questions by its likeliest tokens, several at once.
type Writer struct {
	Model     *models.Model
	Tokenizer *tokenizer.Tokenizer
	Memory    core.Memory
	Size      generate.EngineConfig
	EOS       []int32 // each ends an answer
	Most      int     // tokens of an answer
	Check     *crosscheck.Checker
	Report    *core.Report // of the kernels that Check may take off
}

// Fit returns the size of an engine that is as small as these questions let it be.
func Fit(questions []Question, most int) generate.EngineConfig {
	const together, block = 16, 16
	longest := 0
	for _, q := range questions {
		longest = max(longest, len(q.Prompt)+most)
	}
	n := max(1, min(together, len(questions)))
	return generate.EngineConfig{MaxSequences: n, BlockSize: block, Blocks: n * ((longest + block - 1) / block)}
}

// Write returns what the model answers, without scores. Each answer is told to tell, unless it is nil, in the order
// of the questions.
func (w Writer) Write(ctx context.Context, questions []Question,
	tell func(i int, p *Prediction)) ([]Prediction, error) {
	engine, err := generate.NewEngine(w.Model, w.Tokenizer, w.Memory, w.Size)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	engine.Check(w.Check, w.Report)
	all := make([]Prediction, 0, len(questions))
	err = generate.InOrder(ctx, len(questions), func(ctx context.Context, i int) (Prediction, error) {
		q, o := questions[i], generate.Options{MaxNewTokens: w.Most}
		o.EOS = append(w.EOS[:len(w.EOS):len(w.EOS)], q.Stop...)
		out, err := engine.Generate(ctx, generate.Request{Prompt: q.Prompt, Options: o})
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return Prediction{}, fmt.Errorf("question %d: %w", i+1, err)
		}
		return Prediction{Data: q.Data, Prompt: w.Tokenizer.Decode(q.Prompt, false), Expected: q.Answer,
			Generated: strings.TrimSpace(out.Text)}, nil
	}, func(i int, p Prediction) error {
		all = append(all, p)
		if tell != nil {
			tell(i, &all[i])
		}
		return nil
	})
	return all, err
}
