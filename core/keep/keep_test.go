package keep

import (
	"testing"

	"github.com/seed98097648/tune/core"
)

// store gives values that count how often one was made.
func store(t *testing.T, most int64) (of func(use int, inputs ...core.Tensor) (int, bool)) {
	t.Helper()
	was := limit
	limit = func() int64 { return most }
	t.Cleanup(func() { limit = was; held.Store(0) })
	s, made := new(Store[int, int]), 0
	return func(use int, inputs ...core.Tensor) (int, bool) {
		return s.Of(use, 10, func() int { made++; return made }, inputs...)
	}
}

func input(content uint64) core.Tensor {
	x := core.NewTensor(core.Float32, 1)
	x.Content = content
	return x
}

func TestAValueIsFoundByContentAndUseAlone(t *testing.T) {
	of := store(t, 1000)
	for i, tt := range []struct {
		use    int
		inputs []core.Tensor
		want   int
	}{
		{0, []core.Tensor{input(7)}, 1},
		{0, []core.Tensor{input(7)}, 1}, // lies elsewhere
		{1, []core.Tensor{input(7)}, 2},
		{0, []core.Tensor{input(8)}, 3},
		{0, []core.Tensor{input(7), input(8)}, 4},
		{0, []core.Tensor{input(7), input(9)}, 5},
		{0, []core.Tensor{input(7), input(8)}, 4},
		{0, []core.Tensor{input(7), input(8), input(9)}, 6}, // a weight in NF4 has two more
		{0, []core.Tensor{input(7), input(8), input(6)}, 7},
		{0, []core.Tensor{input(7), input(8), input(9)}, 6},
		{0, []core.Tensor{input(0)}, 0},
		{0, []core.Tensor{input(7), input(0)}, 0},
	} {
		if got, ok := of(tt.use, tt.inputs...); got != tt.want || ok != (tt.want != 0) {
			t.Errorf("question %d: %d, %v, want %d", i, got, ok, tt.want)
		}
	}
	if Held() != 70 {
		t.Errorf("%d bytes are held, want 70", Held())
	}
}

// TestWhatIsKeptStaysWhenThereIsNoMoreRoom: weights come in turn, and the first is needed again
// after the last.
func TestWhatIsKeptStaysWhenThereIsNoMoreRoom(t *testing.T) {
	of := store(t, 25)
	for range 5 {
		for content := range uint64(3) {
			got, ok := of(0, input(content+1))
			if want := content < 2; ok != want || want && got != int(content)+1 {
				t.Fatalf("content %d: %d, %v", content+1, got, ok)
			}
		}
	}
	if Held() != 20 {
		t.Errorf("%d bytes are held, want 20", Held())
	}
}

// TestWhatNobodyAsksForIsForgotten, and its room is used again.
func TestWhatNobodyAsksForIsForgotten(t *testing.T) {
	of := store(t, 20)
	of(0, input(1))
	for range 100 {
		of(0, input(2))
	}
	if _, ok := of(0, input(3)); !ok || Held() != 20 {
		t.Errorf("kept %v, %d bytes are held, want 20", ok, Held())
	}
}

func TestNothingIsKeptWithoutALimit(t *testing.T) {
	of := store(t, 0)
	if _, ok := of(0, input(1)); ok || Held() != 0 {
		t.Errorf("kept %v, %d bytes are held", ok, Held())
	}
}
