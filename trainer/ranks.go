package trainer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/fields"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/placement"
)

// Ranks says how several ranks train together; see Job.World.
type Ranks struct {
	Reduce    Reduction
	SyncCheck int // steps after which the ranks compare their parameters; 0 for never
}

// validate reports what several ranks cannot do.
func (r Ranks) validate(c Config) error {
	kind := cmp.Or(c.Optimizer.Kind, optim.AdamW)
	switch {
	case c.Optimizer.UpdateInBackward:
		return errors.New("trainer.Optimizer.UpdateInBackward with several ranks: gradients are summed over the ranks " +
			"before they are used; update after the backward pass, with trainer.Reduction.Shard for less memory")
	case r.Reduce.Shard && c.Optimizer.narrow():
		return errors.New("trainer.Reduction.Shard with trainer.Optimizer.Weights of bf16: only float32 is shared out; " +
			"leave one of them out")
	case r.Reduce.Shard && !slices.Contains(elementwise, kind):
		return fmt.Errorf("trainer.Reduction.Shard with the optimizer %s: what it remembers of an element depends on "+
			"others; take one of %v", kind, elementwise)
	}
	return nil
}

// elementwise are the optimizers that can change any piece of a parameter by itself.
var elementwise = []optim.Kind{optim.AdamW, optim.Lion, optim.SGD}

// leads reports whether this rank prints, logs and saves.
func (r *session) leads() bool { return r.job.World.Rank() == 0 }

// share returns the rows of a batch and the batches of a step that each of several ranks has: a step has the same rows
// whatever the number of ranks, Batch times Accumulate.
func (c Config) share(w *distributed.World) (batch, accumulate int, err error) {
	rows, ranks := c.Batch*c.Accumulate, w.Size()
	if w == nil {
		return c.Batch, c.Accumulate, nil
	}
	if err := c.Ranks.validate(c); err != nil {
		return 0, 0, err
	}
	if rows%ranks != 0 {
		return 0, 0, fmt.Errorf("trainer: a step of %d rows, trainer.Config.Batch %d times trainer.Config.Accumulate %d, "+
			"cannot be shared out to %d ranks: make it a multiple of them", rows, c.Batch, c.Accumulate, ranks)
	}
	rows /= ranks
	for batch = min(c.Batch, rows); rows%batch != 0; {
		batch--
	}
	return batch, rows / batch, nil
}

// placeAlike makes the plan of the first rank that of all.
func (j *Job) placeAlike(ctx context.Context, plan *core.Plan, reg *core.Registry, failed error) (*core.Plan, error) {
	if j.World == nil || failed != nil && j.World.Rank() > 0 {
		return plan, failed
	}
	var mine []byte
	if j.World.Rank() == 0 && failed == nil {
		mine, failed = json.Marshal((&core.Report{Actions: plan.Actions}).Placements())
	}
	all, err := j.World.Exchange("the places of the kernels", mine)
	if err = errors.Join(failed, err); err == nil && plan == nil && len(all[0]) > 0 {
		var placed []core.Placement
		if err = json.Unmarshal(all[0], &placed); err == nil {
			plan, err = core.Repeat(ctx, j.Model, reg, placed)
		}
		if err == nil {
			reg.Rest(plan.Actions)
		}
	}
	return plan, agree(j.World, err)
}

// ownOfRank are the fields of a Config that ranks may differ in: none changes a number, or when ranks have to meet, or,
// like the paths, what they stand for is compared by its content. The other freeFields do: by the checkpoints and the
// metric each rank knows when to evaluate, write, save and stop, and by whether kernels are compared, if a step is done
// again.
var ownOfRank = []string{"model", "out", "threads", "strict", "gradient_checkpointing", "checkpoint_parts", "data.paths",
	"data.eval", "data.dataset_dir", "lora.adapter", "preference.ref_cache"}

// checkRanks is an error, which says what differs, unless all ranks train the same on the same, from the same step.
func (r *session) checkRanks() (err error) {
	w, j := r.job.World, r.job
	if w == nil {
		return nil
	}
	r.state.Model, r.state.Data, err = j.fingerprint()
	if err = agree(w, err); err != nil {
		return err
	}
	memory.GiveBack() // what it took to read the model
	mine := flatten(j.Config)
	for _, name := range ownOfRank {
		delete(mine, name)
	}
	how := j.Config.Ranks
	for name, value := range map[string]any{"trainer.Ranks.SyncCheck": how.SyncCheck, "trainer.Reduction.Type": how.Reduce.Type,
		"trainer.Reduction.Behind": how.Reduce.Behind, "trainer.Reduction.Shard": how.Reduce.Shard,
		"the program": environment().Program, "the model, by its SHA-256": r.state.Model,
		"the data, or what the tokenizer makes of it, by its SHA-256": r.state.Data} {
		mine[name] = fmt.Sprint(value)
	}
	for i, set := range j.Sets {
		mine[fmt.Sprintf("the held-out data, part %d", i+1)] = fmt.Sprintf("%s of %d rows", set.Name, set.Rows.Len())
	}
	if j.Config.LoRA.Adapter != "" { // a folder, whose weights are compared with all that is trained
		mine["the adapter"] = j.Model.Adapter.Config().Numbers()
	}
	if from := j.Resume; from != nil {
		sums, _ := os.ReadFile(from.file(checkpoint.SumsFile)) // which one of an earlier program has not
		mine["the checkpoint"] = fmt.Sprintf("step %d with the checksums of SHA-256 %x", from.State.Step, sha256.Sum256(sums))
	}
	text, _ := json.Marshal(mine) // of texts
	all, err := w.Exchange("a comparison of the ranks", text)
	if err != nil {
		return err
	}
	known := fields.Names(reflect.TypeFor[Config]())
	var first map[string]string
	for rank, text := range all {
		var other map[string]string
		if err := json.Unmarshal(text, &other); err != nil {
			return err
		}
		if rank == 0 {
			first = other
		}
		var errs []error
		for _, name := range differing(first, other) {
			errs = append(errs, fmt.Errorf("%s: %s and %s", cmp.Or(known[name], name), cmp.Or(first[name], "none"),
				cmp.Or(other[name], "none")))
		}
		if errs != nil {
			return fmt.Errorf("trainer: %s and %s differ; start all ranks with the same program, flags and files:\n%w",
				w.Name(0), w.Name(rank), errors.Join(errs...))
		}
	}
	return nil
}

// compareMachines is an error unless all ranks have the same plugins where their processors are of one kind: another file
// of a kernel may compute otherwise. What plugins find on the machine may differ, and is told of.
func (r *session) compareMachines() error {
	w, first := r.job.World, r.state.Machine
	if w == nil {
		return nil
	}
	text, err := json.Marshal(first)
	if err != nil {
		return err
	}
	all, err := w.Exchange("the machines of the ranks", text)
	if err != nil {
		return err
	}
	for rank, text := range all {
		var other placement.Machine
		if err := json.Unmarshal(text, &other); err != nil {
			return err
		}
		if rank == 0 {
			first = other
		}
		var errs []error
		for _, name := range differing(first.Plugins, other.Plugins) {
			errs = append(errs, fmt.Errorf("the plugin %s, by its SHA-256: %s and %s", name, cmp.Or(first.Plugins[name], "none"),
				cmp.Or(other.Plugins[name], "none")))
		}
		if errs != nil && first.Arch == other.Arch {
			return fmt.Errorf("trainer: %s and %s differ; start all ranks with the same program and plugins:\n%w",
				w.Name(0), w.Name(rank), errors.Join(errs...))
		}
		if what := first.Changed(other); what != nil && r.leads() {
			call(r.job.Hooks.OnWarning, fmt.Errorf("%s is not as %s in %s: results depend by rounding on which rank has which rows",
				w.Name(rank), w.Name(0), strings.Join(what, " and ")))
		}
	}
	return nil
}

// syncDue reports whether the ranks compare their parameters after the step at hand: also after the first that they make
// together, which shows at once whether they update alike.
func (r *session) syncDue() bool {
	every, first := r.job.Config.Ranks.SyncCheck, 1
	if from := r.job.Resume; from != nil {
		first += from.State.Step
	}
	return every > 0 && (r.state.Step%every == 0 || r.state.Step == first)
}

// inSync is an error unless all ranks have the same parameters, to the bit.
func (r *session) inSync() error {
	w := r.job.World
	if w == nil {
		return nil
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	for _, p := range r.job.Model.Trainable() {
		sum.Write(p.Tensor.Data)
	}
	all, err := w.Exchange("a comparison of the parameters", sum.Sum(nil))
	var differ []string
	for rank, s := range all {
		if !bytes.Equal(s, all[0]) {
			differ = append(differ, w.Name(rank))
		}
	}
	if differ != nil {
		return fmt.Errorf("trainer: after step %d the parameters of %s are not those of %s: its memory, processor or files "+
			"are to be looked at; resume from a checkpoint without it", r.state.Step, strings.Join(differ, ", "), w.Name(0))
	}
	return err
}

// most returns the largest of the numbers that the ranks have.
func (r *session) most(what string, mine byte) (most byte, err error) {
	all, err := r.job.World.Exchange(what, []byte{mine})
	if err != nil {
		return mine, err
	}
	return slices.Max(slices.Concat(all...)), nil
}

// everybody gathers what the ranks have measured, of one batch of each after the other, and makes the metrics those of
// all, unless a rank has failed.
func everybody(w *distributed.World, j *judge, mine []measured, failed error) ([]measured, error) {
	if w == nil {
		return mine, failed
	}
	told := j.told()
	numbers := slices.Clone(told)
	for _, m := range mine {
		numbers = append(numbers, m.loss, m.weight, m.targets, m.following, m.tokens)
	}
	all, err := tell(w, "an evaluation", failed, numbers)
	if err != nil {
		return nil, err
	}
	sums, ranks := make([][]float64, len(all)), make([][]measured, len(all))
	for i, numbers := range all {
		sums[i] = numbers[:len(told)]
		for m := range slices.Chunk(numbers[len(told):], 5) {
			ranks[i] = append(ranks[i], measured{m[0], m[1], m[2], m[3], m[4]})
		}
	}
	j.heard(sums)
	return inTurn(ranks), nil
}

// inTurn joins what ranks have, one of each after the other, as long as any has one.
func inTurn[T any](ranks [][]T) (all []T) {
	most := 0
	for _, of := range ranks {
		most = max(most, len(of))
	}
	for k := range most {
		for _, of := range ranks {
			if k < len(of) {
				all = append(all, of[k])
			}
		}
	}
	return all
}

// fairly returns a rank's share of what is free on its machine, once all know what that is.
func fairly(w *distributed.World, free int64) (int64, error) {
	_, err := w.Exchange("the memory that is free", nil)
	return free / int64(len(w.Node())), err
}
