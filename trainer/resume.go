package trainer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/fields"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/optim"
)

// Resume is a checkpoint to go on from; see Job.Resume.
type Resume struct {
	Dir   string // the checkpoint's folder
	State State
	log   []byte // the training log up to it
}

// OpenCheckpoint reads a checkpoint, or the newest one of a run's output folder.
func OpenCheckpoint(path string) (*Resume, error) {
	dir := path
	if _, err := os.Stat(filepath.Join(path, checkpoint.SumsFile)); !isCheckpoint(path) && !(err == nil && checkpoint.IsStep(path)) {
		steps, err := checkpoint.Steps(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("trainer: resume: %s does not exist; name the output folder of the run to go on with, with trainer.Config.Out", path)
		}
		if err != nil {
			return nil, fmt.Errorf("trainer: resume: %w", err)
		}
		if len(steps) == 0 {
			return nil, fmt.Errorf("trainer: resume: %s has no checkpoint: only runs with trainer.Checkpoints.SaveEvery have some", path)
		}
		dir = checkpoint.StepDir(path, steps[len(steps)-1])
	}
	s, err := readWhole(dir)
	if errors.Is(err, checkpoint.ErrDamaged) || !isCheckpoint(dir) { // a folder that only has the name of one
		err = fmt.Errorf("%w\n%s", err, older(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("trainer: resume: %w", err)
	}
	log, err := os.ReadFile(filepath.Join(dir, LogFile))
	if err != nil {
		return nil, fmt.Errorf("trainer: resume: %w", err)
	}
	return &Resume{dir, *s, log}, nil
}

// file returns the path of a file of the checkpoint.
func (r *Resume) file(name string) string { return filepath.Join(r.Dir, name) }

// readWhole reads the state of a checkpoint, of which no file differs from its checksum. One
// of an earlier program has none.
func readWhole(dir string) (*State, error) {
	if err := checkpoint.Verify(dir); err != nil {
		return nil, err
	}
	s, err := readState(dir)
	if err != nil {
		return nil, err
	}
	sums := filepath.Join(dir, checkpoint.SumsFile)
	if _, err := os.Stat(sums); s.Sums && err != nil {
		return nil, fmt.Errorf("%s is missing: the checkpoint is %w", sums, checkpoint.ErrDamaged)
	}
	return s, nil
}

// older says what to do without a checkpoint that is damaged, or is none.
func older(dir string) string {
	dir = filepath.Clean(dir)
	steps, _ := checkpoint.Steps(filepath.Dir(dir))
	for _, step := range slices.Backward(steps) {
		other := checkpoint.StepDir(filepath.Dir(dir), step)
		if other == dir {
			continue
		}
		if _, err := readWhole(other); err == nil {
			return fmt.Sprintf("%s is whole: remove %s and resume again, or resume from %s into another trainer.Config.Out",
				other, dir, other)
		}
	}
	return "no other checkpoint of the run is whole: bring the file back from a copy, or start anew"
}

// freeFields are the fields of a Config that may differ when a run is resumed: they change no
// number, or, like the paths, what they stand for is compared by its content. Of the data
// that is every field but NoPacking, by which batches are cut: the rows that come of them are compared.
var freeFields = []string{"model", "out", "threads", "strict", "check_every", "gradient_checkpointing", "checkpoint_parts",
	"checkpoints.save_every", "checkpoints.save_epochs", "checkpoints.keep", "checkpoints.load_best_at_end", "preference.ref_cache",
	"checkpoints.early_stopping", "checkpoints.early_stopping_threshold", "metric.metric", "metric.max_new_tokens",
	"metric.best_metric"}

// Check returns an error that names every field in which c differs from the configuration
// of the run so far, in a way that would make the result another one.
//
// The length of the run may change, to no less than was done, if the learning rate does not
// depend on it: then the steps so far are those of the longer run as well.
func (r *Resume) Check(c Config) error {
	was, is := flatten(r.State.Config), flatten(c)
	constant := c.Schedule == optim.Constant || c.WarmupRatio == 0 && (c.Schedule == optim.ConstantWithWarmup || c.Schedule == optim.InverseSqrt)
	// Rows of one example each are no longer than they need be: the rows themselves, which are
	// compared once they are read, tell whether they are the same.
	shortened := c.Data.NoPacking && c.Seq >= r.State.Config.Seq
	known := fields.Names(reflect.TypeFor[Config]())
	var errs []error
	for _, name := range differing(was, is) {
		isFree := slices.Contains(freeFields, name) || strings.HasPrefix(name, "data.") && name != "data.no_packing" ||
			name == "checkpoints.eval_every" && c.Checkpoints.EvalEpochs > 0 // which is what counts, and is compared
		if isFree || constant && (name == "steps" || name == "epochs") || shortened && name == "seq" {
			continue
		}
		err := fmt.Errorf("%s: %s -> %s", cmp.Or(known[name], name), cmp.Or(was[name], "none"), cmp.Or(is[name], "none"))
		if name == "steps" || name == "epochs" {
			err = fmt.Errorf("%w (the learning rates so far depend on it, unless trainer.Config.Schedule is constant, or constant_with_warmup or inverse_sqrt without trainer.Config.WarmupRatio)", err)
		}
		errs = append(errs, err)
	}
	if errs != nil {
		return fmt.Errorf("trainer: cannot resume from %s with another configuration, old -> new:\n%w", r.Dir, errors.Join(errs...))
	}
	return nil
}

// differing returns the paths of the values that two flattened configurations do not have in common.
func differing(a, b map[string]string) []string {
	names := maps.Clone(a)
	maps.Copy(names, b)
	maps.DeleteFunc(names, func(name, _ string) bool { return a[name] == b[name] })
	return slices.Sorted(maps.Keys(names))
}

// flatten returns the JSON values of a configuration by their path.
func flatten(c Config) map[string]string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers that Validate has found finite, texts and flags
	}
	all := map[string]string{}
	var walk func(prefix string, raw json.RawMessage)
	walk = func(prefix string, raw json.RawMessage) {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil || object == nil {
			all[prefix] = string(raw)
			return
		}
		for name, value := range object {
			walk(strings.TrimPrefix(prefix+"."+name, "."), value)
		}
	}
	walk("", b)
	return all
}

// checkInputs compares the model and the data with those of the run so far.
func (r *Resume) checkInputs(model, rows string) error {
	var errs []error
	if model != r.State.Model {
		errs = append(errs, fmt.Errorf("the model is not the one that the run has started from (SHA-256 %s -> %s)", cmp.Or(r.State.Model, "none"), cmp.Or(model, "none")))
	}
	if rows != r.State.Data {
		errs = append(errs, fmt.Errorf("the data, or what the tokenizer makes of it, is not that of the run so far (SHA-256 %s -> %s)", r.State.Data, rows))
	}
	if errs != nil {
		return fmt.Errorf("trainer: cannot resume from %s:\n%w", r.Dir, errors.Join(errs...))
	}
	return nil
}

// plan puts the kernels where they were, whatever auto would decide today: another kernel
// rounds differently.
func (r *Resume) plan(ctx context.Context, m core.Model, reg *core.Registry) (*core.Plan, error) {
	plan, err := core.Repeat(ctx, m, reg, r.State.Kernels)
	if err != nil {
		return nil, fmt.Errorf("trainer: resume: %w; without it the results would differ: bring back what the run had, or start anew", err)
	}
	reg.Rest(plan.Actions)
	return plan, nil
}
