package corpus_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
)

// letters is a tokenizer of one token a letter.
type letters struct{}

func (letters) Encode(text string, _ bool) (ids []int32) {
	for _, r := range text {
		ids = append(ids, int32(r))
	}
	return ids
}

// Files become rows of tokens, with some held out.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(path, []byte(`{"text": "a wug"}`+"\n"+`{"text": "two wugs"}`+"\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	model := corpus.Model{Encoder: letters{}, EOS: data.None, Pad: 0, Seq: 8}
	c, err := corpus.Load(context.Background(), corpus.Config{Paths: []string{path}}, model)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.Report.Examples, "examples, rows:", c.Train.Len(), "to train on,", c.Eval.Len(), "held out")
	// Output: 2 examples, rows: 1 to train on, 1 held out
}
