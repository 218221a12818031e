package trainer_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// TestDamageToACheckpointNamesTheFileAndAnOlderOne harms every file of a checkpoint in every
// way. One of half precision has all files that there are.
func TestDamageToACheckpointNamesTheFileAndAnOlderOne(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	j := long(t, out)
	halves(t, j, t.TempDir())
	j.Files = []trainer.File{{Name: "tokenizer.json", Data: []byte("{}")}}
	j.Config.Checkpoints.Keep = 0
	run1(t, j)
	newest, older := checkpoint.StepDir(out, 7), checkpoint.StepDir(out, 6)
	all, err := os.ReadDir(newest)
	if err != nil || len(all) != 8 {
		t.Fatalf("the checkpoint has %v, %v; want 8 files", all, err)
	}
	harms := 0
	for _, e := range all {
		path := filepath.Join(newest, e.Name())
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		earlier, err := os.ReadFile(filepath.Join(older, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		flip := func(at int) []byte {
			b := bytes.Clone(whole)
			b[at] ^= 4
			return b
		}
		for how, content := range map[string][]byte{"the first byte": flip(0), "a byte within": flip(len(whole) / 2), "the last byte": flip(len(whole) - 1),
			"cut": whole[:len(whole)/2], "empty": {}, "that of another step": earlier, "missing": nil} {
			if bytes.Equal(content, whole) {
				continue
			}
			harms++
			err := os.Remove(path)
			if content != nil {
				err = os.WriteFile(path, content, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{out, newest} {
				_, err := trainer.OpenCheckpoint(from)
				if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), older+" is whole: remove "+newest) {
					// The files of another step differ from the checksums, unless it is these that are another's.
					if e.Name() == checkpoint.SumsFile && errors.Is(err, checkpoint.ErrDamaged) && strings.Contains(err.Error(), newest) {
						continue
					}
					t.Errorf("%s, %s: error %v, want one that names it and %s", e.Name(), how, err, older)
				}
			}
		}
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if harms < 40 {
		t.Errorf("%d harms were done", harms)
	}
	if _, err := trainer.OpenCheckpoint(out); err != nil {
		t.Errorf("the checkpoint as it was: %v", err)
	}
	if err := os.Remove(filepath.Join(newest, checkpoint.SumsFile)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []int{2, 3, 4, 6} {
		if err := os.RemoveAll(checkpoint.StepDir(out, step)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := trainer.OpenCheckpoint(out); err == nil || !strings.Contains(err.Error(), "no other checkpoint of the run is whole") {
		t.Errorf("the only checkpoint, damaged: %v", err)
	}
}

// TestAFolderThatIsNoCheckpointNamesAnOlderOne has the name of the newest.
func TestAFolderThatIsNoCheckpointNamesAnOlderOne(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	run1(t, long(t, out))
	none := checkpoint.StepDir(out, 9)
	if err := os.Mkdir(none, 0o777); err != nil {
		t.Fatal(err)
	}
	want := none + " has no trainer_state.json: it is no checkpoint of a training run\n" +
		checkpoint.StepDir(out, 7) + " is whole: remove " + none + " and resume again"
	if _, err := trainer.OpenCheckpoint(out); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestAnOlderCheckpointIsResumed: earlier programs have written it, without checksums, and without what they had no
// choice of.
func TestAnOlderCheckpointIsResumed(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	run1(t, long(t, out))
	withoutSums(t, checkpoint.StepDir(out, 7))
	path := filepath.Join(checkpoint.StepDir(out, 7), trainer.StateFile)
	state, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"optimizer", "metric"} {
		old := regexp.MustCompile(`(?s),\s*"`+field+`": \{[^}]*\}`).ReplaceAll(state, nil)
		if bytes.Equal(old, state) {
			t.Errorf("the state has no %s", field)
		}
		state = old
	}
	if err := os.WriteFile(path, state, 0o666); err != nil {
		t.Fatal(err)
	}
	run1(t, resumed(t, long(t, out)))
}

// withoutSums makes a checkpoint one as earlier programs have written it.
func withoutSums(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, trainer.StateFile)
	state, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := bytes.Replace(state, []byte(",\n  \"checksums\": true"), nil, 1)
	if bytes.Equal(old, state) {
		t.Fatal("the state does not say that there are checksums")
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, checkpoint.SumsFile)), os.WriteFile(path, old, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// TestABestModelThatIsDamagedLosesNotTheLast flips a bit of the best while the run goes on.
func TestABestModelThatIsDamagedLosesNotTheLast(t *testing.T) {
	whole := rising(t)
	best := run1(t, whole).Best.Step
	j := rising(t)
	j.Config.Checkpoints.LoadBest = true
	j.Hooks.OnStep = endAt(8, func() {
		path := filepath.Join(checkpoint.StepDir(j.Config.Out, best), checkpoint.SingleFile)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			return
		}
		b[len(b)-1] ^= 1
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Error(err)
		}
	})
	var warnings []error
	j.Hooks.OnWarning = func(err error) { warnings = append(warnings, err) }
	if s := run1(t, j); s.Loaded || len(warnings) != 1 || !errors.Is(warnings[0], checkpoint.ErrDamaged) {
		t.Errorf("%+v; warnings %v", s, warnings)
	}
	_, got := result(t, j.Config.Out)
	if _, want := result(t, whole.Config.Out); !bytes.Equal(got, want) {
		t.Error("the model saved is not the last")
	}
}

// TestValuesThatAreNotFiniteAreRefused puts one into every kind of file that is loaded.
func TestValuesThatAreNotFiniteAreRefused(t *testing.T) {
	model := func(t *testing.T) (dir string) {
		j := long(t, filepath.Join(t.TempDir(), "out"))
		run1(t, j)
		return j.Config.Out
	}
	half := func(t *testing.T) (dir string) {
		dir = t.TempDir()
		halves(t, long(t, ""), dir)
		return dir
	}
	adapter := func(t *testing.T) (dir string) {
		j := long(t, filepath.Join(t.TempDir(), "out"))
		adapted(t, j, half(t), lora.Config{Rank: 2})
		run1(t, j)
		return j.Config.Out
	}
	load := func(o models.LoadOptions) func(*testing.T, string) error {
		return func(t *testing.T, dir string) error {
			m, err := models.LoadWith(dir, autograd.Heap{}, o)
			if err == nil {
				m.Free()
			}
			return err
		}
	}
	resume := func(t *testing.T, dir string) error {
		j := long(t, filepath.Join(t.TempDir(), "on"))
		var err error
		if j.Resume, err = trainer.OpenCheckpoint(checkpoint.StepDir(dir, 6)); err != nil {
			t.Fatal(err)
		}
		_, err = j.Run(t.Context())
		return err
	}
	for _, tt := range []struct {
		name string
		make func(*testing.T) string
		file string
		load func(*testing.T, string) error
	}{
		{"a model", model, checkpoint.SingleFile, load(models.LoadOptions{})},
		{"bfloat16", half, checkpoint.SingleFile, load(models.LoadOptions{})},
		{"bfloat16, frozen", half, checkpoint.SingleFile, load(models.LoadOptions{Frozen: true})},
		{"bfloat16, to be int8", half, checkpoint.SingleFile, load(models.LoadOptions{LoRA: lora.Config{Rank: 1, BaseInt8: true}})},
		{"an adapter", adapter, lora.WeightsFile, func(t *testing.T, dir string) error {
			return load(models.LoadOptions{LoRA: lora.Config{Adapter: dir}})(t, half(t))
		}},
		{"the weights of a checkpoint", model, "checkpoint-6/" + checkpoint.SingleFile, resume},
		{"the moments of a checkpoint", model, "checkpoint-6/optimizer.safetensors", resume},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tt.make(t)
			if err := tt.load(t, dir); err != nil {
				t.Fatalf("as it was saved: %v", err)
			}
			path := filepath.Join(dir, tt.file)
			name := spoil(t, path)
			if err := tt.load(t, dir); err == nil || !strings.Contains(err.Error(), name+" has the value NaN at [") {
				t.Errorf("error %v, want one that names %s", err, name)
			}
		})
	}
}

// spoil makes an element of one tensor NaN, and takes the checksums away that would tell. It
// returns the tensor's name.
func spoil(t *testing.T, path string) string {
	t.Helper()
	f, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	names, metadata := f.Names(), f.Metadata()
	var tensors []checkpoint.Named
	for i, name := range names {
		from, _ := f.Tensor(name)
		to := core.NewTensor(from.DType, from.Shape...)
		copy(to.Data, from.Data)
		if i == len(names)/2 {
			to.Store([]float32{float32(math.NaN())}, to.Elems()-1)
		}
		tensors = append(tensors, checkpoint.Named{Name: name, Tensor: to})
	}
	if err := errors.Join(f.Close(), checkpoint.Write(path, tensors, metadata)); err != nil {
		t.Fatal(err)
	}
	if dir := filepath.Dir(path); checkpoint.IsStep(dir) {
		withoutSums(t, dir)
	} else if err := os.Remove(filepath.Join(dir, checkpoint.SumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names[len(names)/2]
}
