package trainer

import (
	"bytes"
	"encoding/json"
)

// Trained is the last line of the training log.
type Trained struct {
	Step int     `json:"step"` // steps done
	Loss float64 `json:"train_loss"`
}

// trained returns the mean loss so far, 0 before the first step.
func (r *session) trained() Trained {
	return Trained{r.state.Step, r.losses / float64(max(r.state.Step, 1))}
}

// lossesIn adds the losses of a log up, in the order of the steps: the sum of a run that is
// resumed has the same bits as that of one that was not interrupted.
func lossesIn(log []byte) (sum float64) {
	for line := range bytes.Lines(log) {
		var s struct {
			Loss *float64 `json:"loss"` // of steps alone
		}
		if json.Unmarshal(line, &s) == nil && s.Loss != nil {
			sum += *s.Loss
		}
	}
	return sum
}
