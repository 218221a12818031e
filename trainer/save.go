package trainer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// LogFile is the training log in the saved folder: one JSON object a line, first the
// start, then every step and evaluation.
const LogFile = "training_log.jsonl"

// output is the folder that a run saves, under construction; without a path it is
// nothing.
type output struct {
	path   string
	folder *checkpoint.Folder
	lines  bytes.Buffer
}

func newOutput(path string) (*output, error) {
	o := &output{path: path}
	if path == "" {
		return o, nil
	}
	var err error
	o.folder, err = checkpoint.NewFolder(path)
	return o, err
}

func (o *output) abort() {
	if o.folder != nil {
		o.folder.Abort() // removes what a failed run has written; nothing after a commit
	}
}

// log adds a line to the training log.
func (o *output) log(v any) {
	b, err := json.Marshal(v)
	if err != nil { // a number that JSON lacks; the run itself stops on those
		b, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	o.lines.Write(append(b, '\n'))
}

// commit writes everything and renames the folder into place.
func (o *output) commit(j *Job) (string, error) {
	if o.folder == nil {
		return "", nil
	}
	model, err := j.Model.Saved()
	if err != nil {
		return "", fmt.Errorf("trainer: save %s: %w", o.path, err)
	}
	files := append([]File{{model.ConfigFile, model.Config}, {LogFile, o.lines.Bytes()}}, j.Files...)
	for _, f := range files {
		if err := checkpoint.WriteFileAtomic(o.folder.Path(f.Name), f.Data, 0o644); err != nil {
			return "", fmt.Errorf("trainer: save %s: %w", o.path, err)
		}
	}
	if err := checkpoint.Write(o.folder.Path(model.WeightsFile), model.Weights, nil); err != nil {
		return "", fmt.Errorf("trainer: save %s: %w", o.path, err)
	}
	return o.path, o.folder.Commit()
}

// tokenizerFiles reads what a model folder holds beside config and weights.
func tokenizerFiles(dir string) ([]File, error) {
	var files []File
	for _, name := range append(tokenizer.Files(), "generation_config.json") {
		b, err := os.ReadFile(filepath.Join(dir, name))
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
