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

// Documents one after the other, cut into rows.
func ExamplePack() {
	rows, err := data.Pack([][]int32{{1, 2, 3}, {4, 5}}, 4, data.None)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range rows {
		fmt.Println(r.IDs, r.Segments)
	}
	// Output:
	// [1 2 3 4] [1 1 1 2]
}

// A loader deals each row once in an epoch, in an order that follows from the seed.
func ExampleLoader() {
	rows, err := data.Pack([][]int32{{1, 2, 3, 4, 5, 6, 7, 8}}, 2, data.None)
	if err != nil {
		log.Fatal(err)
	}
	l, err := data.NewLoader(data.Slice(rows), 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	batch, err := l.Next()
	fmt.Println(l.BatchesPerEpoch(), batch.B, batch.S, batch.Targets(), err)
	// Output: 2 2 2 2 <nil>
}

// Some of the documents are kept for the evaluation.
func ExampleHoldOut() {
	train, held, err := data.HoldOut([]string{"a", "b", "c", "d"}, 0.25, 1)
	fmt.Println(len(train), len(held), err)
	// Output: 3 1 <nil>
}
