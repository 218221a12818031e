package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// suspects are what can make a loss or a gradient that is not finite: the weights, a kernel,
// the updates so far.
type suspects struct {
	model   *models.Model
	program *nn.Compiled
	updates int // that were made
}

// blame says where the first value appears that is not finite, and why that may be. The
// program must still have the batch at fault, which is run again.
func (s suspects) blame(ctx context.Context, what string, value float64) error {
	where, why, err := s.find(ctx)
	if err != nil {
		return err
	}
	err = fmt.Errorf("trainer: %s is %g: %w; %s: %s", what, value, ErrNonFinite, where, why)
	if where == summed {
		return &elsewhere{err.Error(), errors.Join(ErrNonFinite, errInnocent)}
	}
	return err
}

// summed is where a number became infinite that no module has made so.
const summed = "it appeared while summing what is finite"

func (s suspects) find(ctx context.Context) (where, why string, err error) {
	most, in, bad := s.weights()
	switch {
	case bad != "" && s.updates == 0:
		return bad, "so it had before any update, and training did not make it; get the model's files again", nil
	case bad != "":
		return bad, fmt.Sprintf("one of the %d updates made it; lower the learning rate", s.updates), nil
	}
	path, op, err := s.program.FirstNonFinite(ctx)
	switch {
	case errors.Is(err, autograd.ErrFinite):
		where = summed
	case err != nil:
		return "", "", err
	default:
		where = fmt.Sprintf("first produced by %s (%s), of finite weights", path, op)
		if k := s.kernelAt(path); k != "" {
			return where, fmt.Sprintf("kernel %s computes that; check it with tune kernels verify %[1]s, or leave it out "+
				"of trainer.Config.Kernels", k), nil
		}
	}
	if s.updates == 0 {
		return where, fmt.Sprintf("no update was made yet, so the learning rate is not to blame; the model's weights, up to %g in %s, are more than float32 can compute with", most, in), nil
	}
	return where, fmt.Sprintf("the weights are up to %g in %s after %d updates; lower the learning rate", most, in, s.updates), nil
}

// weights returns the largest magnitude of the weights and the tensor that it is in; or, as
// bad, the first tensor that has a value that is not finite.
func (s suspects) weights() (most float64, in, bad string) {
	for _, p := range s.model.Params() {
		row := make([]float32, p.Tensor.Shape[len(p.Tensor.Shape)-1])
		for _, e := range p.Entries {
			for from, n := 0, e.Shape.Elems(); from < n; from += len(row) {
				p.Load(row, e.Offset+from)
				for i, v := range row {
					if v := math.Abs(float64(v)); !finite(v) {
						return 0, "", fmt.Sprintf("the weight %s has %s at element %d of %d", e.Name, nameOf(v), from+i, n)
					} else if v > most || in == "" {
						most, in = v, e.Name
					}
				}
			}
		}
	}
	return most, in, ""
}

func nameOf(notFinite float64) string {
	if math.IsNaN(notFinite) {
		return "NaN"
	}
	return "an infinity"
}

// kernelAt names the kernel of a site, if there is one in place.
func (s suspects) kernelAt(path string) string {
	for _, site := range s.model.Sites() {
		if k := site.Hook.Kernel(); k != nil && site.Path == path {
			return k.Info().Name
		}
	}
	return ""
}
