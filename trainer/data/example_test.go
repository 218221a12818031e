package data_test

import (
	"fmt"
	"log"

	"github.com/seed98097648/tune/trainer/data"
)

// bytewise is a toy tokenizer: a token for each byte.
type bytewise struct{}

func (bytewise) Encode(text string, _ bool) []int32 {
	ids := make([]int32, len(text))
	for i := range ids {
		ids[i] = int32(text[i])
	}
	return ids
}

func Example() {
	docs := []data.Document{{Text: "ab"}, {Text: "cde"}}
	const eos, pad, seq = 2, 0, 8
	rows, err := data.Pack(data.Tokenize(bytewise{}, docs, eos), seq, pad)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ids      ", rows[0].IDs)
	fmt.Println("labels   ", rows[0].Labels)
	fmt.Println("positions", rows[0].Positions)
	fmt.Println("segments ", rows[0].Segments)
	// Output:
	// ids       [97 98 2 99 100 101 2 0]
	// labels    [-100 98 2 -100 100 101 2 -100]
	// positions [0 1 2 0 1 2 3 0]
	// segments  [1 1 1 2 2 2 2 0]
}
