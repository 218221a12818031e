package trainer_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/models"
)

// lossOf runs a job with some precision, and returns the mean of its losses.
func lossOf(t *testing.T, p models.Precision, k core.Kernel) float64 {
	t.Helper()
	j := job(t)
	j.Config.Precision, j.Config.Out = p, ""
	if k != nil {
		j.Registry, j.Config.Kernels = core.NewRegistry(), "all"
		if err := j.Registry.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	s, err := j.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Loss
}

// TestMixedPrecisionRoundsWithAndWithoutKernels: a kernel computes what the plain form does, which is not what
// it does in float32.
func TestMixedPrecisionRoundsWithAndWithoutKernels(t *testing.T) {
	full, mixed := lossOf(t, models.Float32, nil), lossOf(t, models.BF16, nil)
	if off := math.Abs(mixed-full) / full; !(off >= 1e-6 && off <= 1e-2) {
		t.Errorf("losses %.9g in float32 and %.9g in bf16", full, mixed)
	}
	if again := lossOf(t, models.BF16, nil); again != mixed {
		t.Errorf("loss %.17g, the same run before gave %.17g", again, mixed)
	}
	if by := lossOf(t, models.BF16, reference.Kernel(core.Linear)); !(math.Abs(by-mixed) <= math.Abs(full-mixed)/4) {
		t.Errorf("loss %.9g with a kernel, %.9g without, %.9g in float32", by, mixed, full)
	}
}

func TestAPrecisionThatIsNoneNamesTheOthers(t *testing.T) {
	err := trainer.Config{Precision: "fp16"}.Validate()
	if err == nil || !strings.Contains(err.Error(), `trainer.Config.Precision is "fp16"; it takes float32, bf16`) {
		t.Errorf("error %v", err)
	}
	c := trainer.Default()
	if c.Precision = ""; c.Validate() != nil { // which is float32
		t.Errorf("error %v", c.Validate())
	}
}

// TestTheZeroPrecisionReadsAsFloat32, as it does of checkpoints from before there was another.
func TestTheZeroPrecisionReadsAsFloat32(t *testing.T) {
	text, err := json.Marshal(trainer.Config{})
	if err != nil || !strings.Contains(string(text), `"precision":"float32"`) {
		t.Errorf("%s, error %v", text, err)
	}
}
