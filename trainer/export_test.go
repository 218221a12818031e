package trainer

import (
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/models"
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
