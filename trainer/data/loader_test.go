package data

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// numbered returns n rows of two tokens; row i has the ids i and 1000+i.
func numbered(t testing.TB, n int) Slice {
	t.Helper()
	var docs [][]int32
	for i := range int32(n) {
		docs = append(docs, []int32{i, 1000 + i})
	}
	rows, err := Pack(docs, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func newLoader(t testing.TB, rows, batch int, seed uint64) *Loader {
	t.Helper()
	l, err := NewLoader(numbered(t, rows), batch, seed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// deal returns the numbers of the rows in the next steps batches, without padding.
func deal(l *Loader, steps int) []int32 {
	var order []int32
	for range steps {
		b, err := l.Next()
		if err != nil {
			panic(err) // rows in memory cannot fail
		}
		for i := 0; i < len(b.IDs); i += b.S {
			if b.Segments[i] != 0 {
				order = append(order, b.IDs[i])
			}
		}
	}
	return order
}

func TestLoaderDealsEveryRowOnceAnEpoch(t *testing.T) {
	for _, size := range []struct{ rows, batch, perEpoch int }{{12, 4, 3}, {10, 4, 3}, {3, 8, 1}, {1, 1, 1}, {1, 3, 1},
		{7, 7, 1}} {
		l := newLoader(t, size.rows, size.batch, 5)
		if got := l.BatchesPerEpoch(); got != size.perEpoch {
			t.Errorf("%v: BatchesPerEpoch() = %d", size, got)
		}
		order := deal(l, 6*size.perEpoch)
		for epoch := range slices.Chunk(order, size.rows) {
			sorted := slices.Sorted(slices.Values(epoch))
			for i, row := range sorted {
				if row != int32(i) {
					t.Fatalf("%v: an epoch dealt %v", size, epoch)
				}
			}
		}
	}
}

// As in torch's DataLoader without drop_last.
func TestTheLastBatchOfAnEpochHasWhatIsLeft(t *testing.T) {
	l := newLoader(t, 5, 3, 1)
	for i, want := range []int{3, 2, 3, 2} {
		b, err := l.Next()
		if err != nil {
			t.Fatal(err)
		}
		if n := b.Targets(); n != want || b.B != 3 {
			t.Errorf("batch %d has %d rows, %d of them not padding; want 3 and %d", i, b.B, n, want)
		}
	}
}

func TestLoaderOrderDependsOnSeedAndEpochOnly(t *testing.T) {
	const rows = 50
	first := deal(newLoader(t, rows, 5, 1), 20)
	if again := deal(newLoader(t, rows, 5, 1), 20); !slices.Equal(first, again) {
		t.Error("the same seed dealt another order")
	}
	if wide := deal(newLoader(t, rows, 7, 1), 16); !slices.Equal(first, wide) {
		t.Error("another batch size dealt another order")
	}
	if other := deal(newLoader(t, rows, 5, 2), 20); slices.Equal(first[:rows], other[:rows]) {
		t.Error("another seed dealt the same order")
	}
	if slices.Equal(first[:rows], first[rows:]) {
		t.Error("two epochs have the same order")
	}
	if slices.IsSorted(first[:rows]) {
		t.Error("the rows are not shuffled")
	}
}

func TestSeekResumes(t *testing.T) {
	const steps = 23
	want := deal(newLoader(t, 10, 3, 9), steps)
	for at := range steps {
		l := newLoader(t, 10, 3, 9)
		deal(l, steps-at) // wherever it was before, ahead or behind
		l.Seek(at)
		rest := want[at/4*10+at%4*3:] // 10 rows in 4 batches
		if got := deal(l, steps-at); !slices.Equal(got, rest) {
			t.Fatalf("after Seek(%d): %v, want %v", at, got, rest)
		}
	}
}

func TestNewLoaderRefuses(t *testing.T) {
	rows := numbered(t, 3)
	long, err := Pack([][]int32{{1, 2, 3}}, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rows  Slice
		batch int
	}{"no rows": {nil, 1}, "batch of 0": {rows, 0}, "rows of two lengths": {append(rows, long...), 1}} {
		if _, err := NewLoader(c.rows, c.batch, 0); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestBatchesYieldsAllRowsInOrderInOneShape(t *testing.T) {
	const x = Ignore
	got := slices.Collect(Batches(numbered(t, 3), 2))
	want := []Batch{
		{2, 2, []int32{0, 1000, 1, 1001}, []int32{x, 1000, x, 1001}, []int32{0, 1, 0, 1}, []int32{1, 1, 1, 1}, nil, nil},
		{2, 2, []int32{2, 1002, 0, 0}, []int32{x, 1002, x, x}, []int32{0, 1, 0, 0}, []int32{1, 1, 0, 0}, nil, nil},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if n := got[0].Targets() + got[1].Targets(); n != 3 {
		t.Errorf("%d targets, want 3", n)
	}
	for range Batches(nil, 2) {
		t.Error("a batch of no rows")
	}
	if n := len(slices.Collect(Batches(numbered(t, 3), 0))); n != 3 {
		t.Errorf("batch size 0: %d batches, want 3", n)
	}
	for range Batches(numbered(t, 3), 1) { // stopping early must be possible
		break
	}
}

func TestTargetsLeavesOutWhatNothingPredicts(t *testing.T) {
	b := Batch{B: 2, S: 2, Labels: []int32{7, 7, 7, Ignore}}
	if n := b.Targets(); n != 1 {
		t.Errorf("%d targets, want 1", n)
	}
}

func TestHoldOut(t *testing.T) {
	items := make([]int, 20)
	for i := range items {
		items[i] = i
	}
	for _, c := range []struct {
		n        int
		fraction float64
		want     int
	}{{20, 0.1, 2}, {20, 0.5, 10}, {20, 0.001, 1}, {20, 0.999, 19}, {11, 0.1, 2}, {2, 0.5, 1}, {20, 0, 0}, {0, 0, 0}} {
		train, held, err := HoldOut(items[:c.n], c.fraction, 3)
		if err != nil || len(held) != c.want || len(train) != c.n-c.want {
			t.Errorf("%v: %d held out, %d left, %v", c, len(held), len(train), err)
		}
		if !slices.IsSorted(train) || !slices.IsSorted(held) {
			t.Errorf("%v: the order changed: %v, %v", c, train, held)
		}
		if all := slices.Sorted(slices.Values(slices.Concat(train, held))); !slices.Equal(all, items[:c.n]) {
			t.Errorf("%v: together they are %v", c, all)
		}
	}
	_, a, _ := HoldOut(items, 0.5, 1)
	_, again, _ := HoldOut(items, 0.5, 1)
	_, b, _ := HoldOut(items, 0.5, 2)
	if !slices.Equal(a, again) || slices.Equal(a, b) {
		t.Errorf("seeds 1, 1, 2 held out %v, %v, %v", a, again, b)
	}
}

func TestHoldOutOfANumber(t *testing.T) {
	items := []int{1, 2, 3, 4}
	for n := range 6 {
		train, held, err := HoldOut(items, float64(n), 1)
		if ok := n < 4; (err == nil) != ok || ok && (len(held) != n || len(train) != 4-n) {
			t.Errorf("%d: held out %v of %v, %v", n, held, train, err)
		}
	}
}

func TestHoldOutRefuses(t *testing.T) {
	for _, fraction := range []float64{-0.1, 1.5, 3, math.Inf(1), math.NaN()} {
		if _, _, err := HoldOut([]int{1, 2, 3}, fraction, 0); err == nil {
			t.Errorf("fraction %g accepted", fraction)
		}
	}
	for n := range 2 {
		if _, _, err := HoldOut(make([]int, n), 0.1, 0); err == nil {
			t.Errorf("held out a part of %d items", n)
		}
	}
}

// TestMostTargetsAreThoseOfABatch: row n of five has n targets, and two are in a batch.
func TestMostTargetsAreThoseOfABatch(t *testing.T) {
	var rows Slice
	for n := range 5 {
		r := Row{IDs: make([]int32, 8), Labels: slices.Repeat([]int32{Ignore}, 8), Positions: make([]int32, 8),
			Segments: make([]int32, 8)}
		copy(r.Labels[4:], make([]int32, n))
		rows = append(rows, r)
	}
	l, err := NewLoader(rows, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	var each []int
	for range 3 * l.BatchesPerEpoch() { // of three epochs, whose batches are others
		b, err := l.Next()
		if err != nil {
			t.Fatal(err)
		}
		each = append(each, b.Targets())
	}
	l.Seek(1)
	for n := range each {
		got, err := l.MostTargets(n + 1)
		if want := slices.Max(each[:n+1]); err != nil || got != want {
			t.Errorf("%d targets, %v, at most in %d batches that have %v", got, err, n+1, each)
		}
	}
	if b, err := l.Next(); err != nil || b.Targets() != each[1] {
		t.Errorf("the next batch has %d targets, %v, want the second, which has %d", b.Targets(), err, each[1])
	}
}
