package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

// rankVariable is set in the ranks that a test has started.
const rankVariable = "TUNE_TEST_RANK"

// asRanks has two processes run the calling test, in each of which it calls f. A rank that waits in vain ends.
func asRanks(t *testing.T, f func(w *distributed.World) error) {
	t.Helper()
	if os.Getenv(rankVariable) == "" {
		mpirun, err := exec.LookPath("mpirun.openmpi")
		if err != nil {
			t.Skip("there is no mpirun.openmpi; install Debian's openmpi-bin")
		}
		cmd := exec.Command(mpirun, "--oversubscribe", "--bind-to", "none", "-n", "2", os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), rankVariable+"=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
			"OMPI_MCA_orte_tmpdir_base="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	w, err := distributed.Open(distributed.Detect(), distributed.Options{Timeout: time.Minute,
		Fatal: func(err error) { fmt.Fprintln(os.Stderr, err) }})
	if err == nil {
		err = errors.Join(f(w), w.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// engineOf compiles a fresh tiny model for batches of one row, two of which make a step of a rank.
func engineOf(w *distributed.World, change func(*trainer.EngineConfig)) (*trainer.Engine, error) {
	m, err := models.New([]byte(tiny), autograd.Heap{})
	if err != nil {
		return nil, err
	}
	m.Init(1)
	cfg := trainer.EngineConfig{Batch: 1, Seq: 17, Accumulate: 2, Clip: 1, Optim: optim.DefaultConfig(), World: w}
	change(&cfg)
	return trainer.NewEngine(m, autograd.Heap{}, cfg)
}

// TestABatchOfOneRankThatIsNoneFailsAll: nobody waits for it, and the next step is one.
func TestABatchOfOneRankThatIsNoneFailsAll(t *testing.T) {
	all := rows(t, 17)[:2]
	asRanks(t, func(w *distributed.World) error {
		e, err := engineOf(w, func(*trainer.EngineConfig) {})
		if err != nil {
			return err
		}
		defer e.Close()
		var batches []data.Batch
		for b := range data.Batches(all, 1) {
			batches = append(batches, b)
		}
		broken := batches[0]
		if w.Rank() == 1 {
			broken.Labels = broken.Labels[1:]
		}
		_, err = e.Step(t.Context(), []data.Batch{broken}, 1e-3)
		if err == nil || !strings.Contains(err.Error(), "Batch.Labels has 16 values") ||
			w.Rank() == 0 && !strings.Contains(err.Error(), w.Name(1)) {
			return fmt.Errorf("rank %d: a batch of rank 1 with a label less: %v", w.Rank(), err)
		}
		own := batches[:1+w.Rank()] // the second has one more, and its losses count
		r, err := e.Step(t.Context(), own, 1e-3)
		if want := batches[0].Targets()*2 + batches[1].Targets(); err != nil || r.Targets != want {
			return fmt.Errorf("rank %d: %d targets, want %d; %v", w.Rank(), r.Targets, want, err)
		}
		_, alone := engine(t, 3, 1)
		one := data.Slice{all[0], all[0], all[1]}
		for b := range data.Batches(one, 3) {
			want, err := alone.Step(t.Context(), []data.Batch{b}, 1e-3)
			if d := r.Loss - want.Loss; err != nil || !(d >= -1e-5 && d <= 1e-5) {
				return fmt.Errorf("rank %d: the loss is %g, of one rank %g; %v", w.Rank(), r.Loss, want.Loss, err)
			}
		}
		return nil
	})
}

// TestAnEngineOfRanksRefusesWhatTheyCannotDo, as a run does: it would compute something else.
func TestAnEngineOfRanksRefusesWhatTheyCannotDo(t *testing.T) {
	asRanks(t, func(w *distributed.World) error {
		for want, change := range map[string]func(*trainer.EngineConfig){
			"UpdateInBackward": func(c *trainer.EngineConfig) { c.UpdateInBackward, c.Accumulate = true, 1 },
			"muon":             func(c *trainer.EngineConfig) { c.Reduce.Shard, c.Optim.Kind = true, optim.Muon },
		} {
			if _, err := engineOf(w, change); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("rank %d: %s: %v", w.Rank(), want, err)
			}
		}
		return nil
	})
}

// TestRanksThatUpdateOtherwiseEndAfterTheFirstStep, not only when the parameters are compared the next time.
func TestRanksThatUpdateOtherwiseEndAfterTheFirstStep(t *testing.T) {
	asRanks(t, func(w *distributed.World) error {
		j := job(t)
		j.World, j.Config.Ranks.SyncCheck, j.Config.Checkpoints.NoEval = w, 100, true
		j.Hooks.OnStart = func(trainer.Start) {
			if w.Rank() == 1 { // as a processor that computes otherwise would have it at the end of a step
				j.Model.Trainable()[0].Tensor.Float32s()[0]++
			}
		}
		_, err := j.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "after step 1 the parameters of "+w.Name(1)) {
			return fmt.Errorf("rank %d: %v", w.Rank(), err)
		}
		return nil
	})
}

// TestAKernelThatIsWrongInTheReferenceOfOneRankIsTakenOffOnAll, and the reference is computed again without it by all.
func TestAKernelThatIsWrongInTheReferenceOfOneRankIsTakenOffOnAll(t *testing.T) {
	asRanks(t, func(w *distributed.World) error {
		calls := 0
		late := &faulty{Kernel: reference.Kernel(core.RMSNorm), name: "late", fault: func(c *core.Call) {
			if w.Rank() == 0 || c.Site != "layers.0.input_layernorm" || c.Pass != core.Forward {
				return
			}
			if calls++; calls == 2 {
				double(c, "y")
			} else if calls > 2 {
				c.Output("y").Float32s()[0] = float32(math.NaN())
			}
		}}
		j := checkedJob(t, autograd.Heap{}, "late", nil, late)
		preferring(t, j, preference.Config{Stage: preference.DPO})
		j.World, j.Config.Batch, j.Config.Accumulate = w, 1, 2
		var first trainer.Step
		j.Hooks.OnStep = func(s trainer.Step) {
			if s.Step == 1 {
				first = s
			}
		}
		s, err := j.Run(t.Context())
		if err != nil {
			return err
		}
		if len(s.Wrong) != 1 || w.Rank() == 1 && calls < 3 {
			t.Errorf("rank %d: %d calls, found wrong: %v", w.Rank(), calls, s.Wrong)
		}
		for _, m := range []*preference.Metrics{s.Before.Metrics, first.Metrics} {
			if *m.Chosen != 0 || *m.Rejected != 0 {
				t.Errorf("rank %d: the model is not its own reference: %v", w.Rank(), m.Named())
			}
		}
		return nil
	})
}

// TestRanksReferTogether: each computes a share, all know all of it, and that one is to end ends all.
func TestRanksReferTogether(t *testing.T) {
	all := preferences(t, false)
	asRanks(t, func(w *distributed.World) error {
		e, err := engineOf(w, func(c *trainer.EngineConfig) {
			c.Seq, c.Preference = 40, preference.Default()
			c.Preference.Stage = preference.DPO
		})
		if err != nil {
			return err
		}
		defer e.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if w.Rank() == 1 {
			cancel()
		}
		if _, err = e.Refer(ctx, all); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("rank %d: of a reference that one rank does not compute to its end: %v", w.Rank(), err)
		}
		for _, want := range []int{len(all) / 2, 0} { // the share of rank 1, who has all that rank 0 computed before
			if n, err := e.Refer(t.Context(), all); n != want || err != nil {
				return fmt.Errorf("rank %d: %d batches were computed, want %d; %v", w.Rank(), n, want, err)
			}
		}
		return nil
	})
}
