package trainer

import (
	"errors"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
)

// PartsOf has so many elements of a large gradient be in memory at a time.
func PartsOf(elems int) { partElems = elems }

// ForksOf returns where two answers may have their prompt once.
func ForksOf(c Config) corpus.Forks { return c.forks() }

// InPart is the error of a step that is made in part.
var InPart = inPart

// DiskOf returns what a run will write of a model, and for a checkpoint.
func DiskOf(m *models.Model) (model, checkpoint int64) {
	n := needOf(m, optim.DefaultConfig())
	return n.model, n.checkpoint
}

// Fitted returns the lengths that batches are cut to, each of which has its own graph, where making the graphs of some
// lengths fails.
func Fitted(batches []data.Batch, seq int, shorter []int, failed map[int]error) (lengths []int, err error) {
	made := map[*graph]int{}
	g, err := newGraphs(seq, shorter, func(seq int, _ *autograd.Program) (*graph, error) {
		of := &graph{Compiled: new(nn.Compiled)}
		made[of] = seq
		return of, failed[seq]
	})
	for _, b := range batches {
		if err == nil {
			b, err = g.fit(b)
		}
		if err != nil {
			return lengths, err
		}
		if made[g.at(b.S)] != b.S {
			return lengths, errors.New("the graph is of another length")
		}
		lengths = append(lengths, b.S)
	}
	return lengths, nil
}
