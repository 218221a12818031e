package format_test

import (
	"encoding/json"
	"fmt"

	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/data/records"
)

// The columns of a row tell its format, and what of it is learned.
func ExampleDetect() {
	row := records.Record{Fields: map[string]json.RawMessage{
		"instruction": []byte(`"Inflect: wug"`), "input": []byte(`""`), "output": []byte(`"two wugs"`)}}
	layout, err := format.Detect(format.Auto, row)
	if err != nil {
		fmt.Println(err)
		return
	}
	example, err := layout.Example(row)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(layout.Format)
	for _, m := range example.Chat.Messages {
		fmt.Println(m.Role, m.Content)
	}
	// Output:
	// alpaca
	// user Inflect: wug
	// assistant two wugs
}
