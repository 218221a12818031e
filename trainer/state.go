package trainer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/placement"
	"github.com/seed98097648/tune/trainer/preference"
)

// StateFile is where a checkpoint has what is not a tensor.
const StateFile = placement.StateFile

// stateVersion is the version of the checkpoints that this program writes and reads. Since
// version 2 an epoch ends with a smaller batch, a warm-up begins at 0, and norms and biases
// do not decay.
const stateVersion = 2

// State is where a run stands. Names of fields are those of transformers where it has
// the same. What is random in a run follows from the seed of its Config and the number
// of steps.
type State struct {
	Version int     `json:"version"`
	Step    int     `json:"global_step"` // done
	Steps   int     `json:"max_steps"`
	Epoch   float64 `json:"epoch"`   // passes over the training data so far
	Batches int     `json:"batches"` // dealt so far; what data.Loader.Seek takes
	Rows    int     `json:"rows"`    // of training data
	First   Step    `json:"first_step"`
	Last    Step    `json:"last_step"`
	Before  *Eval   `json:"eval_before,omitempty"` // the evaluation before the first step
	Eval    *Eval   `json:"eval,omitempty"`        // the newest
	Best    *Eval   `json:"best,omitempty"`        // of those after a step
	// NoBetter counts the newest evaluations that were no better than the best before them; see Checkpoints.Patience.
	NoBetter int `json:"evals_no_better,omitempty"`

	Config  Config            `json:"config"` // with every default filled in
	Model   string            `json:"model_sha256,omitempty"`
	Data    string            `json:"data_sha256"`
	Kernels []core.Placement  `json:"kernels"` // with Machine, what placement.Read takes from it
	Machine placement.Machine `json:"machine"`
	Sums    bool              `json:"checksums,omitempty"` // the checkpoint has those of its files
}

func (s *State) write(f *checkpoint.Folder) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("trainer: %w", err)
	}
	return f.WriteFile(StateFile, append(b, '\n'))
}

func isCheckpoint(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, StateFile))
	return err == nil
}

func readState(dir string) (*State, error) {
	path := filepath.Join(dir, StateFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s: it is no checkpoint of a training run", dir, StateFile)
	}
	if err != nil {
		return nil, err
	}
	s := &State{Config: Config{Optimizer: Optimizer{Kind: optim.AdamW}, Preference: preference.Default(),
		Metric: Metric{MaxNewTokens: defaultNewTokens}, complete: true}} // that of older checkpoints
	if err := plainjson.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("%s: version is %d, this program reads %d: resume with the program that wrote it", path, s.Version, stateVersion)
	}
	if err := s.Config.Validate(); err != nil {
		return nil, fmt.Errorf("%s: config: %w", path, err)
	}
	if s.Step < 1 || s.Steps < s.Step || s.Rows < 1 || s.Batches != epochOf(s.Rows, s.Config).batchesBefore(s.Step) {
		return nil, fmt.Errorf("%s: global_step %d of max_steps %d after %d batches, with %d rows in batches of %d, %d a step, cannot be: the file is damaged",
			path, s.Step, s.Steps, s.Batches, s.Rows, s.Config.Batch, s.Config.Accumulate)
	}
	return s, nil
}

// fingerprint says which model folder and which data the job has, by their content. The
// model has none if it is not from a folder.
func (j *Job) fingerprint() (model, rows string, err error) {
	if j.Config.Model != "" {
		if model, err = modelSum(j.Config.Model, j.Model.RawConfig); err != nil {
			return "", "", err
		}
	}
	h := sha256.New()
	for _, rows := range []data.Rows{j.Train, j.Eval} {
		for i := range rowsIn(rows) {
			row, err := rows.Row(i)
			if err != nil {
				return "", "", err
			}
			for _, values := range [][]int32{row.IDs, row.Labels, row.Positions, row.Segments} {
				_ = binary.Write(h, binary.LittleEndian, values) // a hash never fails
			}
			_ = binary.Write(h, binary.LittleEndian, row.Roles)
			_ = binary.Write(h, binary.LittleEndian, row.Forks)
		}
		h.Write([]byte("end"))
	}
	return model, hex.EncodeToString(h.Sum(nil)), nil
}

// modelSum does not depend on how the tensors are divided into files.
func modelSum(dir string, config []byte) (string, error) {
	set, err := checkpoint.OpenDir(dir)
	if err != nil {
		return "", fmt.Errorf("trainer: %w", err)
	}
	defer set.Close()
	h := sha256.New()
	h.Write(config)
	var room checkpoint.Room
	for _, name := range set.Names() {
		dtype, shape, _ := set.Lookup(name)
		data, is, err := set.Bytes(name) // of a model that was quantised
		if err == nil && !is {
			var t core.Tensor
			t, err = set.TensorIn(&room, name)
			data = t.Data
		}
		if err != nil {
			return "", fmt.Errorf("trainer: %w", err)
		}
		fmt.Fprintf(h, "\n%s %v %v\n", name, dtype, shape)
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Trained is the last line of the training log.
type Trained struct {
	Step int     `json:"step"` // steps done
	Loss float64 `json:"train_loss"`
}

// trained returns the mean loss so far, 0 before the first step.
func (r *session) trained() Trained {
	return Trained{r.state.Step, r.losses / float64(max(r.state.Step, 1))}
}

// lossesIn adds the losses of a log up, in the order of the steps: the sum of a run that is
// resumed has the same bits as that of one that was not interrupted.
func lossesIn(log []byte) (sum float64) {
	for line := range bytes.Lines(log) {
		var s struct {
			Loss *float64 `json:"loss"` // of steps alone
		}
		if json.Unmarshal(line, &s) == nil && s.Loss != nil {
			sum += *s.Loss
		}
	}
	return sum
}
