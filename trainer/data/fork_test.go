package data

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// answers are two parts of the same prompt and of n and m tokens after it.
func answers(prompt []int32, n, m int) (first, second Part) {
	of := func(role Role, n int, from int32) Part {
		p := Part{IDs: slices.Clone(prompt), Learn: make([]bool, len(prompt)), Role: role}
		for i := range n {
			p.IDs, p.Learn = append(p.IDs, from+int32(i)), append(p.Learn, true)
		}
		return p
	}
	return of(Chosen, n, 101), of(Rejected, m, 201)
}

// TestAPromptStandsOnceForTwoAnswers has the row that fork.go shows, and after it a pair that has nothing in common
// and one more that has.
func TestAPromptStandsOnceForTwoAnswers(t *testing.T) {
	s := NewStore()
	for i, prompt := range [][]int32{{1, 2, 3}, {4, 5}, {6, 7}} {
		a, b := answers(prompt, 2-i/2, 2-i/2)
		common := Common(a, b)
		if i == 1 {
			common = 0
		}
		if err := s.AddPair(a, b, common); err != nil {
			t.Fatal(err)
		}
	}
	p, err := NewPacked(s, 24, 9)
	if err != nil {
		t.Fatal(err)
	}
	p.BestFit([]int{0, 1, 2})
	got, err := p.Row(0)
	if err != nil || p.Len() != 1 {
		t.Fatalf("%d rows, %v", p.Len(), err)
	}
	const no = Ignore
	want := Row{
		IDs: []int32{102, 101, 3, 1, 2, 3, 201, 202, 4, 5, 101, 102, 4, 5, 201, 202, 101, 7, 6, 7, 201, 9, 9, 9},
		Labels: []int32{no, no, 102, 101, no, no, 201, 202, no, no, 101, 102, no, no, 201, 202, no, no, 101, no, 201,
			no, no, no},
		Positions: []int32{4, 3, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2, 3, 2, 1, 0, 1, 2, 0, 0, 0},
		Segments:  []int32{1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 6, 6, 0, 0, 0},
		Roles:     []Role{Chosen, Rejected, Chosen, Rejected, Chosen, Rejected},
		Forks:     []int32{2, 0, 0, 0, 1, 0},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestOnlyWhatIsNotLearnedIsInCommon(t *testing.T) {
	part := func(learn string, ids ...int32) Part {
		p := Part{IDs: ids}
		for _, c := range learn {
			p.Learn = append(p.Learn, c == 'x')
		}
		return p
	}
	for name, c := range map[string]struct {
		first, second Part
		want          int
	}{
		"a prompt but for its last token":  {part("...xx", 1, 2, 3, 4, 5), part("...x", 1, 2, 3, 6), 2},
		"answers that begin alike":         {part("...xx", 1, 2, 3, 4, 5), part("...xx", 1, 2, 3, 4, 6), 2},
		"prompts that differ":              {part("....x", 1, 2, 3, 4, 5), part("....x", 1, 2, 7, 4, 5), 2},
		"nothing":                          {part(".x", 1, 2), part(".x", 3, 2), 0},
		"an answer to a prompt of a token": {part(".x", 1, 2), part(".x", 1, 3), 0},
		"an answer to no prompt":           {part("xx", 1, 2), part("xx", 1, 3), 0},
		"the other is learned before":      {part("...x", 1, 2, 3, 4), part(".xxx", 1, 2, 3, 5), 2},
		"the other is shorter":             {part("....x", 1, 2, 3, 4, 5), part("..", 1, 2), 2},
		"the first is shorter":             {part("..", 1, 2), part("...x", 1, 2, 3, 4), 1},
		"no tokens":                        {part(""), part(".x", 1, 2), 0},
	} {
		if got := Common(c.first, c.second); got != c.want {
			t.Errorf("%s: %d in common, want %d", name, got, c.want)
		}
	}
}

// TestAPartIsTheSameHoweverItLies lays random pairs with what they have in common once and twice.
func TestAPartIsTheSameHoweverItLies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	once, twice := NewStore(), NewStore()
	var all []int
	saved := 0
	for i := range 60 {
		prompt := make([]int32, 1+rng.IntN(9))
		for k := range prompt {
			prompt[k] = rng.Int32N(50)
		}
		a, b := answers(prompt, 1+rng.IntN(6), 1+rng.IntN(6))
		if err := once.AddPair(a, b, Common(a, b)); err != nil {
			t.Fatal(err)
		}
		if err := twice.AddPair(a, b, 0); err != nil {
			t.Fatal(err)
		}
		saved += Common(a, b)
		all = append(all, i)
	}
	told := func(s *Store, single bool) (parts []string, targets, places int) {
		p, err := NewPacked(s, 40, 0)
		if err != nil {
			t.Fatal(err)
		}
		lay := p.BestFit
		if single {
			lay = p.Single
		}
		lay(all)
		for b := range Batches(allRows(t, p), 3) {
			targets += b.Targets()
			scored := 0
			for row := range b.Roles {
				for i, span := range b.Spans(row) {
					ids, labels := b.Part(span)
					parts = append(parts, fmt.Sprint(b.Roles[row][i], ids, labels))
					for at := span.From; at < span.End; at++ {
						if b.Scored(at) {
							scored++
						}
					}
					places += span.End - span.From
				}
			}
			if scored != b.Targets() {
				t.Errorf("the parts of a batch have %d targets of %d", scored, b.Targets())
			}
		}
		slices.Sort(parts)
		return parts, targets, places
	}
	want, targets, places := told(twice, false)
	for _, single := range []bool{false, true} {
		got, n, fewer := told(once, single)
		if !slices.Equal(got, want) || n != targets || len(got) != 120 {
			t.Errorf("a row each %v: %d parts with %d targets, and %d with %d", single, len(got), n, len(want), targets)
		}
		if fewer != places-saved {
			t.Errorf("a row each %v: %d places, want %d less %d", single, fewer, places, saved)
		}
	}
}

func allRows(t *testing.T, p *Packed) (rows []Row) {
	t.Helper()
	for i := range p.Len() {
		r, err := p.Row(i)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// TestWhatARowDoesNotTakeStandsTwice: a pair too long for a row is cut at its end.
func TestWhatARowDoesNotTakeStandsTwice(t *testing.T) {
	for seq, want := range map[int]Row{
		8: {IDs: []int32{102, 101, 3, 1, 2, 3, 201, 202}, Forks: []int32{2, 0}},
		7: {IDs: []int32{1, 2, 3, 101, 102, 1, 2}},
	} {
		s := NewStore()
		a, b := answers([]int32{1, 2, 3}, 2, 2)
		if err := s.AddPair(a, b, Common(a, b)); err != nil {
			t.Fatal(err)
		}
		p, err := NewPacked(s, seq, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.BestFit([]int{0})
		got := allRows(t, p)[0]
		if !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.Forks, want.Forks) || len(got.Roles) != 2 {
			t.Errorf("rows of %d: %v with forks %v", seq, got.IDs, got.Forks)
		}
	}
}
