package trainer_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/journal"
)

// TestTheLossOfARunIsTheMeanOfItsSteps as train_loss in transformers, and not that of the
// last step. It is the same, to the bit, for a run that died on the way.
func TestTheLossOfARunIsTheMeanOfItsSteps(t *testing.T) {
	dir := t.TempDir()
	whole := long(t, filepath.Join(dir, "whole"))
	sum := 0.0
	whole.Hooks.OnStep = func(s trainer.Step) { sum += s.Loss }
	s := run1(t, whole)
	if want := sum / 7; s.Loss != want || s.Loss == s.Last.Loss {
		t.Errorf("the loss is %v, want the mean %v; the last is %v", s.Loss, want, s.Last.Loss)
	}
	dies(t, long(t, filepath.Join(dir, "died")), 5)
	if again := run1(t, resumed(t, long(t, filepath.Join(dir, "died")))); again.Loss != s.Loss {
		t.Errorf("resumed: %v, want %v", again.Loss, s.Loss)
	}
	run, err := journal.Read(whole.Config.Out)
	if err != nil || run.End.Loss != s.Loss || run.Loss() != s.Loss {
		t.Errorf("the journal has %+v and %v, want %v; %v", run.End, run.Loss(), s.Loss, err)
	}
	log, err := os.ReadFile(filepath.Join(whole.Config.Out, trainer.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	var last trainer.Trained
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last != (trainer.Trained{Step: 7, Loss: s.Loss}) {
		t.Errorf("the log ends with %s, %v", lines[len(lines)-1], err)
	}
}
