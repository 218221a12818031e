package journal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/trainer/journal"
)

// A run writes what happens; whoever reads it has all of it up to the last step.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	w, err := journal.Open(filepath.Join(dir, journal.File))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range []journal.Event{
		&journal.Start{Version: journal.Version, Model: "llama", Steps: 2, Config: json.RawMessage("{}")},
		&journal.Step{Step: 1, Loss: 3.5},
		&journal.Step{Step: 2, Loss: 2.5},
	} {
		if err := w.Record(e); err != nil {
			fmt.Println(err)
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	run, err := journal.Read(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Start.Model, len(run.Steps), "steps, mean loss", run.Loss(), "ended:", run.End != nil)
	// Output: llama 2 steps, mean loss 3 ended: false
}
