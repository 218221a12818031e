package trainer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/models"
)

// Unsaved is the model of a run that is over and cannot be saved: a full disk, a folder
// that is gone or no longer writable.
type Unsaved struct {
	Err error
	// Nowhere is whether no other place could take it either. Before that is tried, it is
	// false, and who expects to make room can have it tried again where it belongs.
	Nowhere bool
}

// save writes the model where it belongs, or else where it can be.
func (r *session) save(ctx context.Context) (string, error) {
	j, o := r.job, r.out
	if o.path == "" {
		return "", nil
	}
	model, err := j.Model.Saved()
	if err != nil { // a run that has diverged, which no other place makes better
		return "", fmt.Errorf("trainer: save %s: %w", o.path, err)
	}
	r.warnOfWidened(model)
	again := func(err error, nowhere bool) bool {
		return j.Unsaved != nil && j.Unsaved(ctx, Unsaved{err, nowhere})
	}
	for tried := false; ; tried = true {
		err := error(nil)
		if tried { // a large model fills a disk anew each time
			r.journal.catchUp()
			err = roomFor(model, o.path)
		}
		if err == nil {
			err = o.commit(model, j.Files)
		}
		var kept *checkpoint.KeptError
		switch {
		case err == nil:
			return o.path, nil
		case errors.As(err, &kept):
			return kept.Path, err
		case again(err, false):
			continue
		}
		place, err2 := o.elsewhere(model, j.Files)
		if err2 == nil {
			return place, &checkpoint.KeptError{Path: place, Err: err}
		}
		if err = errors.Join(err, err2); !again(err, true) {
			return "", err
		}
	}
}

// warnOfWidened warns, once for each tensor, of those that are larger on the disk than before.
func (r *session) warnOfWidened(model models.Saved) {
	var names []string
	for _, name := range model.Widened {
		if !slices.Contains(r.widened, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		r.widened = append(r.widened, names...)
		call(r.job.Hooks.OnWarning, fmt.Errorf("saved as float32, as they have grown beyond what the dtype of their files can hold: %s; "+
			"if that is not meant, lower the learning rate", strings.Join(names, ", ")))
	}
}

// elsewhere saves the model in the first place that can take it: beside the folder that it
// was for, in the working folder, in the user's home, among temporary files.
func (o *output) elsewhere(model models.Saved, files []File) (string, error) {
	name := filepath.Base(filepath.Clean(o.path))
	dirs := []string{filepath.Dir(filepath.Clean(o.path)), "."}
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, home)
	}
	var errs []error
	for _, dir := range append(dirs, os.TempDir()) {
		place := filepath.Join(dir, name)
		if abs, err := filepath.Abs(place); err == nil {
			place = abs
		}
		saved, err := o.saveAs(place, model, files)
		if err == nil {
			return saved, nil
		}
		errs = append(errs, fmt.Errorf("nor in %s: %w", filepath.Dir(place), err))
	}
	return "", errors.Join(errs...)
}

// roomFor reports a disk that is known to have too little room.
func roomFor(model models.Saved, path string) error {
	var need uint64 = 1 << 20 // for the small files
	for _, w := range model.Weights {
		need += uint64(w.Bytes())
	}
	if free, known := checkpoint.Free(path); known && free < need {
		return fmt.Errorf("trainer: the disk of %s has %s free, and the model takes %s", path, amount.Bytes(free), amount.Bytes(need))
	}
	return nil
}

// saveAs saves the model under a name that path has been given a number for, and returns it.
func (o *output) saveAs(path string, model models.Saved, files []File) (_ string, err error) {
	if err := roomFor(model, path); err != nil {
		return "", err
	}
	path, claim, err := checkpoint.FreeName(path, 2, nil)
	if err != nil {
		return "", err
	}
	defer claim.Close() // the model is saved whether that goes or not
	f, err := checkpoint.NewFolder(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Abort()) }() // which does nothing after a commit
	if err := o.write(f, model, files); err != nil {
		return "", err
	}
	// The journal is for people, and may be on the disk that is full.
	if text, err := os.ReadFile(o.file(journal.File)); err == nil {
		if err := os.WriteFile(f.Path(journal.File), text, 0o644); err != nil {
			return "", err
		}
	}
	err = f.Commit()
	if kept := new(checkpoint.KeptError); errors.As(err, &kept) { // somebody has taken the name
		return kept.Path, nil
	}
	return path, err
}
