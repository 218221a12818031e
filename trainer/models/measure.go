package models

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/measure"
)

var _ core.Measurer = (*Model)(nil)

// Measure implements core.Measurer: auto means for the model what it means for tune. It is
// measured on batches of the size of a plain run, or as long as the model's positions
// allow; for another size pass core.Measured with a measure.New of it.
func (m *Model) Measure(reg *core.Registry, inference bool) core.Measure {
	run := measure.Run{Memory: m.Memory(), Batch: measure.DefaultBatch, Seq: measure.DefaultSeq, Inference: inference}
	if limit := m.Config.MaxPositionEmbeddings; limit > 0 {
		run.Seq = min(run.Seq, limit)
	}
	return measure.New(reg, run, measure.Options{})
}
