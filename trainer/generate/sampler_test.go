package generate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// often returns how often each token is chosen of n times.
func often(s Sampling, logits []float32, before []int32, n int) []float64 {
	counts := make([]float64, len(logits))
	sampler := NewSampler(s)
	for range n {
		counts[sampler.Next(logits, before)]++
	}
	for i := range counts {
		counts[i] /= float64(n)
	}
	return counts
}

// logs are the logits of tokens with these probabilities.
func logs(probabilities ...float64) []float32 {
	out := make([]float32, len(probabilities))
	for i, p := range probabilities {
		out[i] = float32(math.Log(p)) + 3 // a constant changes nothing
	}
	return out
}

func TestSamplingFollowsTheProbabilities(t *testing.T) {
	tests := []struct {
		name     string
		sampling Sampling
		logits   []float32
		before   []int32
		want     []float64
	}{
		{"plain", Sampling{Temperature: 1, TopP: 1}, logs(0.5, 0.3, 0.2), nil, []float64{0.5, 0.3, 0.2}},
		{"temperature", Sampling{Temperature: 0.5, TopP: 1}, logs(0.5, 0.3, 0.2), nil,
			[]float64{25.0 / 38, 9.0 / 38, 4.0 / 38}},
		{"top-k", Sampling{Temperature: 1, TopP: 1, TopK: 2}, logs(0.2, 0.5, 0.3), nil, []float64{0, 0.625, 0.375}},
		{"top-k keeps what equals the last", Sampling{Temperature: 1, TopP: 1, TopK: 1}, logs(0.4, 0.2, 0.4), nil,
			[]float64{0.5, 0, 0.5}},
		{"top-k above the vocabulary", Sampling{Temperature: 1, TopP: 1, TopK: 9}, logs(0.5, 0.3, 0.2), nil,
			[]float64{0.5, 0.3, 0.2}},
		{"top-p takes the one that passes the limit", Sampling{Temperature: 1, TopP: 0.6}, logs(0.2, 0.5, 0.3), nil,
			[]float64{0, 0.625, 0.375}},
		{"top-p keeps one", Sampling{Temperature: 1, TopP: 0.01}, logs(0.2, 0.5, 0.3), nil, []float64{0, 1, 0}},
		{"top-p of nothing keeps one", Sampling{Temperature: 1, TopP: 0}, logs(0.2, 0.5, 0.3), nil, []float64{0, 1, 0}},
		{"and the first of equals", Sampling{Temperature: 1, TopP: 0}, logs(0.2, 0.4, 0.4), nil, []float64{0, 1, 0}},
		{"a temperature that divides to infinity", Sampling{Temperature: 1e-310, TopP: 1}, []float32{1, 3, 2}, nil,
			[]float64{0, 1, 0}},
		{"a temperature of the largest number", Sampling{Temperature: math.MaxFloat64, TopP: 1}, []float32{1, 3}, nil,
			[]float64{0.5, 0.5}},
		{"min-p of all", Sampling{Temperature: 1, TopP: 1, MinP: 1}, logs(0.2, 0.5, 0.3), nil, []float64{0, 1, 0}},
		{"a token that cannot be", Sampling{Temperature: 1, TopP: 1}, []float32{0, float32(math.Inf(-1))}, nil,
			[]float64{1, 0}},
		{"top-p of what top-k leaves", Sampling{Temperature: 1, TopK: 2, TopP: 0.6}, logs(0.5, 0.25, 0.25), nil,
			[]float64{2.0 / 3, 1.0 / 3, 0}},
		{"top-p after the temperature", Sampling{Temperature: 0.5, TopP: 0.6}, logs(0.5, 0.3, 0.2), nil, []float64{1, 0, 0}},
		{"min-p", Sampling{Temperature: 1, TopP: 1, MinP: 0.5}, logs(0.5, 0.3, 0.2), nil, []float64{0.625, 0.375, 0}},
		{"penalty divides what is positive, once", Sampling{Temperature: 1, TopP: 1, RepetitionPenalty: 2},
			[]float32{2, 1, 1}, []int32{0, 0, 0}, []float64{1.0 / 3, 1.0 / 3, 1.0 / 3}},
		{"penalty multiplies what is negative", Sampling{Temperature: 1, TopP: 1, RepetitionPenalty: 2}, []float32{-1, -2},
			[]int32{0}, []float64{0.5, 0.5}},
		{"penalty knows of tokens outside", Sampling{Temperature: 1, TopP: 1, RepetitionPenalty: 2}, []float32{1, 1},
			[]int32{7}, []float64{0.5, 0.5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.sampling.Seed = 1
			const n = 40000
			for i, got := range often(tt.sampling, tt.logits, tt.before, n) {
				// Six standard deviations of the mean; what has no chance is never chosen.
				allowed := 6 * math.Sqrt(tt.want[i]*(1-tt.want[i])/n)
				if !(math.Abs(got-tt.want[i]) <= allowed) {
					t.Errorf("token %d is chosen with %.4f, want %.4f", i, got, tt.want[i])
				}
			}
		})
	}
}

func TestWithoutTemperatureTheLikeliestIsTaken(t *testing.T) {
	for _, tt := range []struct {
		sampling Sampling
		before   []int32
		want     int32
	}{{Sampling{}, nil, 1}, {Sampling{TopK: 3, TopP: 0.5, MinP: 0.1, Seed: 3}, nil, 1},
		{Sampling{RepetitionPenalty: 2}, []int32{1}, 2}} {
		if got := NewSampler(tt.sampling).Next([]float32{0.5, 3, 2, 3}, tt.before); got != tt.want &&
			!(tt.before != nil && got == 3) {
			t.Errorf("%+v takes %d, want %d", tt.sampling, got, tt.want)
		}
	}
}

// TestTheFirstOfTheLikeliestIsTaken where there are more tokens than are looked at together.
func TestTheFirstOfTheLikeliestIsTaken(t *testing.T) {
	const n = 10_001
	low := float32(math.Inf(-1))
	for _, tt := range []struct {
		best []int
		of   float32
		want int32
	}{{nil, low, 0}, {[]int{n - 1}, -2, n - 1}, {[]int{4096, 5000}, 1, 4096}, {[]int{4095, 4096}, 0, 4095},
		{[]int{7, 9000}, -1, 7}} {
		logits := slices.Repeat([]float32{low}, n)
		for _, i := range tt.best {
			logits[i] = tt.of
		}
		if got := likeliest(logits); got != tt.want {
			t.Errorf("of %v takes %d, want %d", tt.best, got, tt.want)
		}
	}
}

func TestTheSeedDecides(t *testing.T) {
	logits := make([]float32, 100)
	draws := func(seed uint64) []int32 {
		s := NewSampler(Sampling{Temperature: 1, TopP: 1, Seed: seed})
		out := make([]int32, 50)
		for i := range out {
			out[i] = s.Next(logits, nil)
		}
		return out
	}
	if !slices.Equal(draws(1), draws(1)) {
		t.Error("the same seed gives other tokens")
	}
	if slices.Equal(draws(1), draws(2)) {
		t.Error("another seed gives the same tokens")
	}
}

// FuzzSampler: whatever the settings, a token is chosen that exists, and with top-k one
// of the k largest logits.
func FuzzSampler(f *testing.F) {
	f.Add([]byte{1, 200, 3, 3}, 0.7, 2, 0.9, 0.1, 1.3)
	f.Add([]byte{0}, 1e-9, 0, 1e-9, 1.0, 0.5)
	f.Fuzz(func(t *testing.T, b []byte, temperature float64, k int, p, minP, penalty float64) {
		s := Sampling{Temperature: temperature, TopK: k, TopP: p, MinP: minP, RepetitionPenalty: penalty}
		if len(b) == 0 || s.Validate() != nil {
			return
		}
		logits := make([]float32, len(b))
		for i, v := range b {
			logits[i] = (float32(v) - 128) / 8
		}
		id := NewSampler(s).Next(logits, []int32{0})
		if id < 0 || int(id) >= len(logits) {
			t.Fatalf("%+v chose %d of %d", s, id, len(logits))
		}
		larger := 0
		for _, l := range logits[1:] { // token 0 may have a penalty
			if id > 0 && l > logits[id] {
				larger++
			}
		}
		if k > 0 && temperature > 0 && larger >= k {
			t.Errorf("%+v chose token %d, and %d are likelier", s, id, larger)
		}
	})
}

func TestSamplingErrorsNameTheFlag(t *testing.T) {
	for want, s := range map[string]Sampling{
		"generate.Sampling.Temperature": {Temperature: -1}, "generate.Sampling.TopK": {TopK: -1},
		"generate.Sampling.TopP": {TopP: 1.5}, "generate.Sampling.MinP": {MinP: -0.1},
		"generate.Sampling.RepetitionPenalty": {RepetitionPenalty: math.NaN()},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", s, err, want)
		}
	}
}

func TestStopsEndATextWhereverTheyAreCut(t *testing.T) {
	tests := []struct {
		stops, pieces []string
		want          string
		found         bool
	}{
		{nil, []string{"a", "b"}, "ab", false},
		{[]string{"END"}, []string{"a", "bE", "N", "Dc"}, "ab", true},
		{[]string{"END"}, []string{"abENDEND"}, "ab", true},
		{[]string{"END"}, []string{"E", "N", "N"}, "ENN", false},
		{[]string{"END"}, []string{"aEN"}, "aEN", false},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, "a", true},
		{[]string{"bcd", "c"}, []string{"ab", "cd"}, "a", true},
		{[]string{"cd", "abcde"}, []string{"abcde"}, "", true},
		{[]string{"\n\n"}, []string{"one\n", "two\n\n", "three"}, "one\ntwo", true},
	}
	for _, tt := range tests {
		s, got, found := stopper{stops: tt.stops}, "", false
		for _, piece := range tt.pieces {
			text, end := s.push(piece)
			if got += text; end {
				found = true
				break
			}
		}
		if !found {
			got += s.rest()
		}
		if got != tt.want || found != tt.found {
			t.Errorf("%q in %q gave %q, %v; want %q, %v", tt.stops, tt.pieces, got, found, tt.want, tt.found)
		}
	}
}

// TestASpecialTokenStopsAText: the text shows nothing of such a token, so its name is not found there.
func TestASpecialTokenStopsAText(t *testing.T) {
	tok, err := tokenizer.Load(testdata.Shared(t, "data", "models", "stories260K"))
	if err != nil {
		t.Fatal(err)
	}
	const first, end = 300, 2 // </s>
	for _, stop := range [][]string{{"</s>"}, {"x</s>", "<s>"}} {
		var last Token
		one, err := newText(tok, Request{Prompt: []int32{1}, Options: Options{Stop: stop}, Token: func(t Token) error {
			last = t
			return nil
		}}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []int32{first, end} {
			logits := make([]float32, tok.VocabSize())
			logits[id] = 1
			if err := one.next(logits, []int32{1}); err != nil {
				t.Fatal(err)
			}
		}
		want := Reason("")
		if stop[0] == "</s>" {
			want = Stop
		}
		if got := one.result.Reason; got != want || last.End != (want == Stop) {
			t.Errorf("%q: %q, want %q; the last token is %+v", stop, got, want, last)
		}
		if want, got := tok.Decode([]int32{1, first}, true), one.result.Text; want == "" || got != want {
			t.Errorf("%q: the text is %q, want %q", stop, got, want)
		}
	}
}
