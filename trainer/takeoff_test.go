package trainer_test

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// fullMemory is a memory that has no more to give once it is full.
type fullMemory struct {
	core.Memory
	full bool
}

var errFull = errors.New("no more memory")

func (m *fullMemory) Alloc(bytes int) ([]byte, error) {
	if m.full {
		return nil, errFull
	}
	return m.Memory.Alloc(bytes)
}

// TestATakeOffWithoutRoomEndsTheRun has a kernel turn out wrong when the plain graph cannot
// be made: in the first step there is nothing to save, in the last evaluation the model.
func TestATakeOffWithoutRoomEndsTheRun(t *testing.T) {
	for name, late := range map[string]bool{"in the first step": false, "in the last evaluation": true} {
		t.Run(name, func(t *testing.T) {
			mem, steps := &fullMemory{Memory: plugintest.Memory(t)}, 0
			wrong := &faulty{reference.Kernel(core.SwiGLU), "wrong", func(c *core.Call) {
				if c.Pass == core.Forward && (steps == 4 || !late) {
					mem.full = true
					c.Output("y").Float32s()[0] = float32(math.NaN())
				}
			}}
			out := filepath.Join(t.TempDir(), "out")
			j := checkedJob(t, mem, "wrong", func(c *trainer.Config) { c.Out, c.Checkpoints.EvalEvery = out, 0 }, wrong)
			j.Hooks.OnStep = func(s trainer.Step) { steps = s.Step }
			s, err := j.Run(t.Context())
			if !errors.Is(err, errFull) {
				t.Fatalf("error %v, want %v", err, errFull)
			}
			if !late {
				if s != nil {
					t.Errorf("a run without a step gives %v", s)
				}
				return
			}
			if s == nil || s.Out != out || s.Steps != 4 {
				t.Fatalf("the summary is %v", s)
			}
			if err := checkpoint.Verify(out); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestARunIsResumedAfterATakeOff without the plugin that was wrong, and without a warning
// that it is not there.
func TestARunIsResumedAfterATakeOff(t *testing.T) {
	dir := t.TempDir()
	plugintest.Compile(t, dir, "./trainer/testdata/shortrope")
	reg, err := core.ScanAllKernels(t.Context(), []string{dir}, transport.Options{CacheDir: "off"}.Open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	mem, out := plugintest.Memory(t), filepath.Join(t.TempDir(), "out")
	job := func() *trainer.Job {
		j := checkedJob(t, mem, "shortrope", func(c *trainer.Config) {
			c.Batch, c.Seq, c.Out, c.Checkpoints.SaveEvery = 4, 24, out, 2
		})
		j.Registry = reg
		return j
	}
	if s := run1(t, job()); len(s.Wrong) != 1 {
		t.Fatalf("taken off: %v, want one", s.Wrong)
	}
	again := job()
	if again.Resume, err = trainer.OpenCheckpoint(out); err != nil {
		t.Fatal(err)
	}
	again.Hooks.OnWarning = func(err error) { t.Errorf("warning: %v", err) }
	run1(t, again)
}
