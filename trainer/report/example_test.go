package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/report"
)

// A run becomes one page that needs nothing else.
func ExampleHTML() {
	var run journal.Run
	for _, e := range []journal.Event{
		&journal.Start{Version: journal.Version, Model: "llama", Steps: 1, Config: json.RawMessage("{}")},
		&journal.Step{Step: 1, Loss: 3.5},
	} {
		if err := run.Record(e); err != nil {
			fmt.Println(err)
		}
	}
	page, err := report.HTML(&run, "my-model")
	fmt.Println(bytes.Contains(page, []byte("<svg")), bytes.Contains(page, []byte("my-model")), err)
	// Output: true true <nil>
}
