package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed98097648/tune/internal/os/patient"
)

// Run is the output folder of a training run that keeps checkpoints: folders named
// checkpoint-N after the steps done, and at the end the files of the model beside them.
// A checkpoint that has its name is complete, whatever happened to the process that wrote it.
type Run struct {
	dir  string
	made bool // the folder was not there
}

// OpenRun makes the folder, if need be, and removes what a process that was killed has left
// unfinished in it: the caller has the Claim to it, so that no other process is at work there.
// A fresh run wants it to be empty, but for the files named, which a run has from its
// beginning. The caller closes the Run.
func OpenRun(dir string, fresh bool, but ...string) (*Run, error) {
	_, err := os.Stat(dir)
	r := &Run{dir, errors.Is(err, fs.ErrNotExist)}
	err = os.MkdirAll(dir, 0o777)
	if err == nil && r.made {
		err = syncDir(filepath.Dir(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: output folder %s: %w", dir, err)
	}
	if fresh {
		if err := checkVacant(dir, but...); err != nil {
			return nil, err
		}
	}
	return r, r.clean()
}

// StepDir returns the path of the checkpoint after a step in a run's folder.
func StepDir(dir string, step int) string {
	return filepath.Join(dir, stepPrefix+strconv.Itoa(step))
}

const stepPrefix = "checkpoint-"

// IsStep reports whether a path has the name of a checkpoint.
func IsStep(path string) bool {
	_, ok := stepOf(filepath.Base(path))
	return ok
}

// stepOf returns the step of a checkpoint's name.
func stepOf(name string) (step int, ok bool) {
	number, ok := strings.CutPrefix(name, stepPrefix)
	step, err := strconv.Atoi(number)
	return step, ok && err == nil && step >= 0 && number == strconv.Itoa(step)
}

// Steps returns the steps of the complete checkpoints in a run's folder, in rising order. A symbolic link may stand
// for one; if it leads nowhere, that is for whoever reads it, who would go back before it otherwise.
func Steps(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var steps []int
	for _, e := range entries {
		if step, ok := stepOf(e.Name()); ok && leadsToFolder(dir, e) {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

func leadsToFolder(dir string, e fs.DirEntry) bool {
	if e.Type() != fs.ModeSymlink {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err != nil || info.IsDir()
}

// Finish starts the final model. Its files take their names in the run's folder when it
// is committed, those called last after all others and not before these are on the disk:
// who finds them finds the whole model. Files that have the names already are replaced.
func (r *Run) Finish(last ...string) (*Folder, error) {
	f := &Folder{path: r.dir, dir: unusedName(filepath.Join(r.dir, finalName)), last: last}
	if err := os.MkdirAll(f.dir, 0o777); err != nil { // and the run's folder too, should it be gone
		return nil, fmt.Errorf("checkpoint: output folder: %w", err)
	}
	return f, nil
}

// Rotate removes all checkpoints but the newest keep, and those after the given steps. A
// checkpoint that is being removed no longer has its name. With keep 0 all stay.
func (r *Run) Rotate(keep int, besides ...int) error {
	steps, err := Steps(r.dir)
	if err != nil || keep == 0 || len(steps) <= keep {
		return err
	}
	var errs []error
	for _, step := range steps[:len(steps)-keep] {
		if slices.Contains(besides, step) {
			continue
		}
		path := StepDir(r.dir, step)
		old := unusedName(path)
		if err := patient.Rename(path, old); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, syncDir(r.dir), os.RemoveAll(old))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("checkpoint: cannot remove an old checkpoint: %w", err)
	}
	return nil
}

// Unfinished reports whether something in an output folder with this name was being written,
// or removed, by a process that has been killed, or has not ended.
func Unfinished(name string) bool {
	of, _, unfinished := strings.Cut(name, "."+partial+"-")
	return unfinished && (of == finalName || strings.HasPrefix(of, stepPrefix)) || name == claimFile
}

// finalName is that of what becomes the final model.
const finalName = "final"

// clean removes what is unfinished, or was being removed.
func (r *Run) clean() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		if !Unfinished(e.Name()) || e.Name() == claimFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.dir, e.Name())); err != nil {
			return fmt.Errorf("checkpoint: cannot remove what a killed run has left: %w", err)
		}
	}
	return nil
}

// Close removes the folder if OpenRun has made it and it is empty.
func (r *Run) Close() error {
	if entries, err := os.ReadDir(r.dir); r.made && err == nil && len(entries) == 0 {
		if err := os.Remove(r.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}
