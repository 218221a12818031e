package data_test

import (
	"fmt"
	"log"

	"github.com/seed98097648/tune/trainer/data"
)

// A text and a conversation share a row. Of the conversation, only the answer is learned.
func Example() {
	store := data.NewStore()
	text, answer := []int32{11, 12, 2}, []int32{21, 22, 31, 2}
	if err := store.Add(text, nil); err != nil {
		log.Fatal(err)
	}
	if err := store.Add(answer, []bool{false, false, true, true}); err != nil {
		log.Fatal(err)
	}
	const pad, seq = 0, 8
	rows, err := data.NewPacked(store, seq, pad)
	if err != nil {
		log.Fatal(err)
	}
	rows.BestFit([]int{0, 1})
	row, err := rows.Row(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ids      ", row.IDs)
	fmt.Println("labels   ", row.Labels)
	fmt.Println("positions", row.Positions)
	fmt.Println("segments ", row.Segments)
	// Output:
	// ids       [11 12 2 21 22 31 2 0]
	// labels    [-100 12 2 -100 -100 31 2 -100]
	// positions [0 1 2 0 1 2 3 0]
	// segments  [1 1 1 2 2 2 2 0]
}
