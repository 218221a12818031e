package tensorboard_test

import (
	"fmt"
	"os"
	"time"

	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/tensorboard"
)

// An event file is a sink of a run: see trainer.Job.Journal.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	w, err := tensorboard.New(dir, time.Unix(0, 0))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Record(&journal.Step{Step: 1, Loss: 3.5}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(w.Close())
	files, err := os.ReadDir(dir)
	fmt.Println(len(files), err)
	// Output:
	// <nil>
	// 1 <nil>
}
