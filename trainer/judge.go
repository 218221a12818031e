package trainer

import (
	"errors"

	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/preference"
)

// judge makes the loss of preferences of the losses of tokens, for one graph. A nil judge leaves the
// loss to the graph.
type judge struct {
	config    preference.Config
	reference *Reference // nil if the loss needs none
	measuring bool       // the answers' log-probabilities become those of the reference

	answers []preference.Answer // of the batch at hand
	spans   []data.Span         // where each one's tokens lie in it
	keys    []answerKey         // of each, with a reference
	batch   data.Batch
	of      preference.Total
	sums    preference.Sums
}

func newJudge(c preference.Config, reference *Reference) *judge {
	if !c.Enabled() {
		return nil
	}
	return &judge{config: c, reference: reference}
}

// total returns what the loss of a step with these batches is a mean of.
func (j *judge) total(batches ...data.Batch) (of preference.Total) {
	if j == nil {
		return of
	}
	for _, b := range batches {
		j.read(b)
		j.config.Count(&of, j.answers)
	}
	return of
}

// read finds the answers of a batch.
func (j *judge) read(b data.Batch) {
	j.batch, j.answers, j.spans = b, j.answers[:0], j.spans[:0]
	for row, roles := range b.Roles {
		for part, span := range b.Spans(row) {
			a := preference.Answer{Role: roles[part]}
			for t := span.From; t < span.End; t++ {
				if b.Scored(t) {
					a.Tokens++
				}
			}
			j.answers, j.spans = append(j.answers, a), append(j.spans, span)
		}
	}
}

// begin prepares the loss of a batch, as a part of a step. It fails where the reference does not know an answer.
func (j *judge) begin(b data.Batch, of preference.Total) error {
	if j == nil {
		return nil
	}
	if j.read(b); len(j.answers) == 0 && b.Targets() > 0 {
		return errors.New("trainer: the rows have answers to follow, and no preferences, as preference.Config.Stage asks for")
	}
	j.of, j.keys = of, j.keys[:0]
	if j.reference == nil {
		return nil
	}
	for i, span := range j.spans {
		key, known := j.reference.find(b, span)
		if j.keys = append(j.keys, key); !known && !j.measuring {
			return errors.New("trainer: the reference has not seen an answer of the batch: call Engine.Refer before the first step")
		}
		j.answers[i].Reference = j.reference.logProbs[key]
	}
	return nil
}

// weigh is the autograd.Weigh of the graph.
func (j *judge) weigh(losses, slopes []float32) (float64, error) {
	for i, span := range j.spans {
		sum := 0.0
		for t := span.From; t < span.End; t++ {
			if j.batch.Scored(t) {
				sum -= float64(losses[t])
			}
		}
		j.answers[i].LogProb = sum
	}
	clear(slopes)
	if j.measuring {
		sum := 0.0
		for _, a := range j.answers {
			sum -= a.LogProb
		}
		for i, a := range j.answers {
			if finite(sum) { // else the pass fails by it, and may be made again
				j.reference.logProbs[j.keys[i]] = a.LogProb
			}
		}
		return sum, nil
	}
	loss := j.config.Add(j.answers, j.of, &j.sums)
	for i, span := range j.spans {
		for t := span.From; t < span.End; t++ {
			if j.batch.Scored(t) {
				slopes[t] = float32(-j.answers[i].Slope)
			}
		}
	}
	return loss, nil
}

// following returns what the loss of the batch at hand has of following the chosen answers, as ORPO has it, and the tokens
// that this is a mean over.
func (j *judge) following() (loss, tokens float64) {
	if j == nil || j.config.Method() != preference.ORPO {
		return 0, 0
	}
	for _, a := range j.answers {
		if a.Role == data.Chosen {
			loss -= a.LogProb / float64(j.of.ChosenTokens)
		}
	}
	return loss, float64(j.of.ChosenTokens)
}

// forget begins the metrics anew.
func (j *judge) forget() {
	if j != nil {
		j.sums = preference.Sums{}
	}
}

// told returns what ranks tell each other of the metrics since forget; nothing without preferences.
func (j *judge) told() []float64 {
	if j == nil {
		return nil
	}
	return j.sums.Numbers()
}

// heard makes the metrics those of all ranks, of what each has told.
func (j *judge) heard(all [][]float64) {
	if j.forget(); j == nil {
		return
	}
	for _, numbers := range all {
		j.sums.Plus(numbers)
	}
}

// metrics returns those since forget; nil without preferences.
func (j *judge) metrics() *preference.Metrics {
	if j == nil {
		return nil
	}
	return j.sums.Metrics()
}
