package trainer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// LogFile is the training log in the saved folder: one JSON object a line, first the
// start, then every step and evaluation.
const LogFile = "training_log.jsonl"

// output is the folder that a run saves, under construction; without a path it is
// nothing. It appears as a whole at the end, unless it has checkpoints: then it is there
// from the beginning, and the files of the model join them at the end.
type output struct {
	path   string
	claim  *checkpoint.Claim  // nil where the job has brought its own
	folder *checkpoint.Folder // without checkpoints
	run    *checkpoint.Run    // with checkpoints
	lines  bytes.Buffer
}

// newOutput claims the folder.
func (j *Job) newOutput() (_ *output, err error) {
	c, from := j.Config, j.Resume
	if j.World.Rank() > 0 {
		return &output{}, nil // the first rank saves
	}
	o := &output{path: c.Out}
	if c.Out != "" && j.Claim == nil {
		if o.claim, err = checkpoint.NewClaim(c.Out); err != nil {
			return nil, err
		}
	}
	switch {
	case c.Out == "":
	case c.Checkpoints.SaveEvery == 0 && from == nil:
		o.folder, err = checkpoint.NewFolder(c.Out)
	default:
		own := from != nil && same(filepath.Dir(filepath.Clean(from.Dir)), c.Out)
		left := []string{journal.File} // by a run that was killed before it had a checkpoint
		if _, err := os.Lstat(filepath.Join(c.Out, journal.File)); err == nil {
			left = append(left, PredictionsDir)
		}
		o.run, err = checkpoint.OpenRun(c.Out, !own, left...)
		switch {
		case err != nil:
		case own:
			err = isNewest(c.Out, from.State.Step)
		default:
			err = os.RemoveAll(filepath.Join(c.Out, PredictionsDir))
		}
	}
	if from != nil {
		o.lines.Write(from.log)
	}
	if err != nil {
		o.abort()
		return nil, err
	}
	return o, nil
}

func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// isNewest refuses to go back before checkpoints that the run would come across again.
func isNewest(dir string, step int) error {
	steps, err := checkpoint.Steps(dir)
	if err == nil && len(steps) > 0 && steps[len(steps)-1] > step {
		err = fmt.Errorf("trainer: %s is newer than the checkpoint to resume from; remove it to go back, or resume into another trainer.Config.Out",
			checkpoint.StepDir(dir, steps[len(steps)-1]))
	}
	return err
}

// abort removes what a failed run has not finished, and leaves its checkpoints. After a
// commit it removes nothing.
func (o *output) abort() {
	if o.folder != nil {
		o.folder.Abort()
	}
	if o.run != nil {
		o.run.Close()
	}
	if o.claim != nil {
		o.claim.Close()
	}
}

// file is where a file of the folder is until the end; "" without a folder.
func (o *output) file(name string) string {
	switch {
	case o.folder != nil:
		return o.folder.Path(name)
	case o.run != nil:
		return filepath.Join(o.path, name)
	}
	return ""
}

// log adds a line to the training log.
func (o *output) log(v any) {
	b, err := plainjson.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	o.lines.Write(append(b, '\n'))
}

// commit writes the final model and gives it its name.
func (o *output) commit(model models.Saved, files []File) error {
	f := o.folder
	if o.run != nil {
		var err error
		if f, err = o.run.Finish(model.ConfigFile); err != nil {
			return err
		}
		defer f.Abort() // does nothing after the commit
	}
	if err := o.write(f, model, files); err != nil {
		return fmt.Errorf("trainer: save %s: %w", o.path, err)
	}
	return f.Commit()
}

// write writes what a run saves.
func (o *output) write(f *checkpoint.Folder, model models.Saved, files []File) error {
	if err := writeModel(f, model, files); err != nil {
		return err
	}
	return f.WriteFile(LogFile, o.lines.Bytes())
}

// writeModel writes what makes a folder a model folder, or that of an adapter, with some
// files besides. It is all that a saved folder and a checkpoint have in common.
func writeModel(f *checkpoint.Folder, model models.Saved, files []File) error {
	for _, file := range append([]File{{model.ConfigFile, model.Config}}, files...) {
		if err := f.WriteFile(file.Name, file.Data); err != nil {
			return err
		}
	}
	return f.WriteTensors(model.WeightsFile, model.Weights, nil)
}

// tokenizerFiles reads what a model folder holds beside config and weights.
func tokenizerFiles(dir string) ([]File, error) {
	more, err := chat.MoreTemplates(dir)
	if err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	var files []File
	for _, name := range slices.Concat(tokenizer.Files(), []string{"generation_config.json"}, more) {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("trainer: %w", err)
		}
		files = append(files, File{name, b})
	}
	return files, nil
}
