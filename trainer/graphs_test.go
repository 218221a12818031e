package trainer_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

const longest = 40

// shorter are the lengths of the graphs of these tests besides the longest.
var shorter = []int{8, 16, 24}

// uneven returns rows of one example each: three short ones, three that are longer, and so on.
func uneven(t *testing.T) data.Rows {
	t.Helper()
	store := data.NewStore()
	var all []int
	for i := range 36 {
		ids := make([]int32, []int{6, 14, 40, 20, 31, 16}[i/3%6]-i%3)
		for k := range ids {
			ids[k] = int32((k*7 + i) % 64)
		}
		if err := store.Add(ids, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	rows, err := data.NewPacked(store, longest, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows.Single(all)
	return rows
}

// inSeveral sets an engine up for the rows of uneven.
func inSeveral(c *trainer.EngineConfig) {
	c.Seq, c.Lengths, c.Optim.Kind = longest, shorter, optim.SGD
}

// grouped gives a job rows of several lengths, two batches of which are a step.
func grouped(t *testing.T, j *trainer.Job) {
	t.Helper()
	rows := uneven(t)
	j.Train, j.Eval = rows, data.Subset{Of: rows, Numbers: []int{0, 7, 14, 21}}
	c := &j.Config
	c.Seq, c.Accumulate, c.Data.NoPacking, c.GroupByLength = longest, 2, true, true
	if _, shorter, err := j.Deal(); err != nil || len(shorter) == 0 {
		t.Fatalf("other lengths %v: %v", shorter, err)
	}
}

// TestAGroupedStepTakesItsOwnPositions: the steps of a run have the tokens of their batches' lengths, the longest first.
func TestAGroupedStepTakesItsOwnPositions(t *testing.T) {
	j := job(t)
	grouped(t, j)
	c := &j.Config
	c.Steps, c.Batch, c.Accumulate = 12, 3, 1
	loader, shorter, err := j.Deal()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []int
	for range c.Steps {
		b, err := loader.Next()
		if err != nil {
			t.Fatal(err)
		}
		s := longest
		for _, n := range slices.Backward(shorter) {
			if n >= b.Longest() {
				s = n
			}
		}
		want = append(want, 3*s)
	}
	j.Hooks.OnStep = func(s trainer.Step) { got = append(got, s.Tokens) }
	run1(t, j)
	if !slices.Equal(got, want) || got[0] != 3*longest || slices.Min(got) > 3*longest/2 {
		t.Errorf("steps of %v tokens, want %v", got, want)
	}
}

func TestFullRowsAreNotGrouped(t *testing.T) {
	c := trainer.Default()
	c.GroupByLength = true
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "corpus.Config.NoPacking") {
		t.Errorf("error %v", err)
	}
	if c.Data.NoPacking = true; c.Validate() != nil {
		t.Error(c.Validate())
	}
}

// TestAShorterGraphHasTheBitsOfOneByItself takes steps with batches of unequal lengths, and each again with an engine
// whose only graph has just that length.
func TestAShorterGraphHasTheBitsOfOneByItself(t *testing.T) {
	mem := plugintest.Memory(t)
	kernels := all(t, plugintest.Scan(t, transport.Options{}))
	for name, tt := range map[string]struct {
		patch  func(*models.Model)
		change func(*trainer.EngineConfig)
	}{
		"plain":              {nil, func(*trainer.EngineConfig) {}},
		"kernels":            {kernels, func(*trainer.EngineConfig) {}},
		"computed again":     {kernels, func(c *trainer.EngineConfig) { c.GradientCheckpointing = true }},
		"update in backward": {kernels, func(c *trainer.EngineConfig) { c.UpdateInBackward, c.Clip = true, 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			several := newRun(t, mem, tt.patch, inSeveral, tt.change)
			used := map[int]bool{}
			for b := range data.Batches(rowsOf(t, uneven(t)), 3) {
				s := b.Longest()
				if i, _ := slices.BinarySearch(shorter, s); i < len(shorter) {
					s = shorter[i]
				} else {
					s = longest
				}
				used[s] = true
				alone := newRun(t, mem, tt.patch, inSeveral, tt.change, func(c *trainer.EngineConfig) { c.Seq, c.Lengths = s, nil })
				for i, p := range several.parameters() {
					copy(alone.model.Params()[i].Tensor.Float32s(), p)
				}
				got, err := several.engine.Step(t.Context(), []data.Batch{b}, 0.1)
				if err != nil {
					t.Fatal(err)
				}
				want, err := alone.engine.Step(t.Context(), []data.Batch{b.Cut(s)}, 0.1)
				if err != nil {
					t.Fatal(err)
				}
				if got.Loss != want.Loss || got.GradNorm != want.GradNorm || got.Tokens != 3*s {
					t.Errorf("rows of %d: loss %g, norm %g of %d tokens, want %g and %g of %d", s, got.Loss, got.GradNorm,
						got.Tokens, want.Loss, want.GradNorm, 3*s)
				}
				sameBits(t, several, alone)
			}
			if len(used) != 4 {
				t.Errorf("batches of lengths %v only", used)
			}
		})
	}
}

// rowsOf reads all rows.
func rowsOf(t *testing.T, rows data.Rows) (all data.Slice) {
	t.Helper()
	for i := range rows.Len() {
		r, err := rows.Row(i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// TestGradientsOfSeveralLengthsAreSummed: a step of three batches of other lengths each is that of graphs of one
// length, as is an evaluation, within the rounding of sums that are divided in another way.
func TestGradientsOfSeveralLengthsAreSummed(t *testing.T) {
	mem := plugintest.Memory(t)
	for name, patch := range map[string]func(*models.Model){"plain": nil,
		"kernels": all(t, plugintest.Scan(t, transport.Options{}))} {
		t.Run(name, func(t *testing.T) {
			sums := func(c *trainer.EngineConfig) { c.Accumulate = 3 }
			got := newRun(t, mem, patch, inSeveral, sums)
			want := newRun(t, mem, patch, inSeveral, sums, func(c *trainer.EngineConfig) { c.Lengths = nil })
			batches := slices.Collect(data.Batches(rowsOf(t, uneven(t)), 3))
			for step := range slices.Chunk(batches, 3) {
				a, err := got.engine.Step(t.Context(), step, 0.1)
				if err != nil {
					t.Fatal(err)
				}
				b, err := want.engine.Step(t.Context(), step, 0.1)
				if err != nil {
					t.Fatal(err)
				}
				if a.Targets != b.Targets || a.Tokens >= b.Tokens || !(math.Abs(a.Loss-b.Loss) <= 1e-6) ||
					!(math.Abs(a.GradNorm/b.GradNorm-1) <= 1e-5) {
					t.Errorf("loss %g, norm %g, %d targets, %d tokens; want %g, %g, %d and more than that", a.Loss, a.GradNorm,
						a.Targets, a.Tokens, b.Loss, b.GradNorm, b.Targets)
				}
			}
			a, n, err := got.engine.Evaluate(t.Context(), slices.Values(batches))
			if err != nil {
				t.Fatal(err)
			}
			b, m, err := want.engine.Evaluate(t.Context(), slices.Values(batches))
			if err != nil || n != m || !(math.Abs(a-b) <= 1e-6) {
				t.Errorf("an evaluation of %g over %d, want %g over %d: %v", a, n, b, m, err)
			}
		})
	}
}

// TestALengthThatCannotShareTheMemoryIsLeftOut: its rows have the next longer graph then, and other failures are told.
func TestALengthThatCannotShareTheMemoryIsLeftOut(t *testing.T) {
	full := errors.New("full")
	unlike := func(lengths ...int) map[int]error {
		failed := map[int]error{}
		for _, n := range lengths {
			failed[n] = autograd.ErrUnlike
		}
		return failed
	}
	batches := slices.Collect(data.Batches(rowsOf(t, uneven(t))[:6], 3)) // of 6 and 14 tokens at most
	short, long := batches[0], batches[1]
	for name, tt := range map[string]struct {
		batches []data.Batch
		failed  map[int]error
		want    []int // nil for none
	}{
		"none":             {[]data.Batch{short, long, short}, nil, []int{8, 16, 8}},
		"the least":        {[]data.Batch{short, short, long}, unlike(8), []int{16, 16, 16}},
		"the least, later": {[]data.Batch{long, short, short}, unlike(8), []int{16, 16, 16}},
		"two":              {[]data.Batch{long, short}, unlike(8, 16), []int{24, 24}},
		"another":          {[]data.Batch{short, long, short}, unlike(16), []int{8, 24, 8}},
		"all":              {[]data.Batch{short, long}, unlike(shorter...), []int{longest, longest}},
		"no memory":        {[]data.Batch{long}, map[int]error{16: full}, nil},
	} {
		got, err := trainer.Fitted(tt.batches, longest, shorter, tt.failed)
		if !slices.Equal(got, tt.want) || errors.Is(err, full) != (tt.want == nil) || err != nil && tt.want != nil {
			t.Errorf("%s: the batches are cut to %v, %v, want %v", name, got, err, tt.want)
		}
	}
}

// TestRowsMayBeginAnywhere below the positions that an engine is made for: what counts is how far tokens are apart.
func TestRowsMayBeginAnywhere(t *testing.T) {
	r := newRun(t, autograd.Heap{}, nil, inSeveral, func(c *trainer.EngineConfig) { c.MaxPosition = 64 })
	for b := range data.Batches(rowsOf(t, uneven(t))[:9], 3) {
		var losses []float64
		for range 2 {
			step, err := r.engine.Step(t.Context(), []data.Batch{b}, 0)
			if err != nil {
				t.Fatal(err)
			}
			loss, _, err := r.engine.Evaluate(t.Context(), slices.Values([]data.Batch{b}))
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, step.Loss, loss)
			b.Positions = slices.Clone(b.Positions)
			for i := range b.Positions {
				b.Positions[i] += 64 - longest
			}
		}
		if least, most := slices.Min(losses), slices.Max(losses); !(most-least <= 1e-5*most) {
			t.Errorf("a batch has the losses %v", losses)
		}
	}
}

// TestSeveralLengthsTakeTheMemoryOfTheLongest counts what an engine asks for: for a shorter graph, its leaves alone, as
// is forecast.
func TestSeveralLengthsTakeTheMemoryOfTheLongest(t *testing.T) {
	mem := &counted{Memory: autograd.Heap{}}
	r := newRun(t, mem, nil, inSeveral)
	before := mem.bytes
	for b := range data.Batches(rowsOf(t, uneven(t)), 3) {
		if _, err := r.engine.Step(t.Context(), []data.Batch{b}, 0.1); err != nil {
			t.Fatal(err)
		}
	}
	if more := mem.bytes - before; more == 0 || more > r.engine.Program().Bytes()/20 {
		t.Errorf("three shorter graphs take %d bytes, the longest %d", more, r.engine.Program().Bytes())
	}
	f, err := forecast.New(r.model, autograd.Heap{}, forecast.Run{Batch: 3, Seq: longest, Lengths: shorter})
	if err != nil {
		t.Fatal(err)
	}
	planned := 0
	for _, p := range f.Memory {
		if slices.Contains([]string{"weights", "gradients", "activations"}, p.Name) {
			planned += int(p.Bytes)
		}
	}
	if planned != mem.bytes {
		t.Errorf("%d bytes are forecast, and %d taken", planned, mem.bytes)
	}
}

// counted is memory that knows how much of it is out.
type counted struct {
	core.Memory
	bytes int
}

func (c *counted) Alloc(n int) ([]byte, error) {
	c.bytes += n
	return c.Memory.Alloc(n)
}

func (c *counted) Free(b []byte) {
	c.bytes -= len(b)
	c.Memory.Free(b)
}

// TestTheFirstStepOfAGraphIsTriedBeforeAnUpdate: a kernel that is wrong for one length of rows alone is found out when
// the first batch of that length comes, in each round of comparisons, before anything is updated.
func TestTheFirstStepOfAGraphIsTriedBeforeAnUpdate(t *testing.T) {
	long := func(c *core.Call) bool { return c.Tokens() == 3*longest }
	short := func(c *core.Call) bool { return c.Tokens() < 3*longest }
	for _, tt := range []struct {
		name  string
		wrong func(c *core.Call) bool
		right []int // lengths of steps before it goes wrong, 1 for the longest: what a round of comparisons finds right
		steps []int // of those afterwards; it is found out in the last
		again bool  // comparisons begin again before these
	}{
		{"short", short, nil, []int{1, 0}, false},
		{"long", long, nil, []int{0, 1}, false},
		{"short, in a later round", short, []int{1, 0, 1, 0}, []int{1, 0}, true},
		{"long, in a later round", long, []int{1, 0, 1, 0}, []int{0, 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			goesWrong := false
			reg := core.NewRegistry()
			if err := reg.Register(&faulty{reference.Kernel(core.RMSNorm), "one_length", func(c *core.Call) {
				if goesWrong && c.Pass == core.Backward && tt.wrong(c) {
					c.Out[0].Float32s()[0] += 100
				}
			}}); err != nil {
				t.Fatal(err)
			}
			patch := func(m *models.Model) {
				if _, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all"); err != nil {
					t.Fatal(err)
				}
			}
			check := crosscheck.New(1000)
			r := newRun(t, autograd.Heap{}, patch, inSeveral, unclipped, atOnce,
				func(c *trainer.EngineConfig) { c.Check = check })
			batches := slices.Collect(data.Batches(rowsOf(t, uneven(t)), 3))
			slices.SortStableFunc(batches, func(a, b data.Batch) int { return a.Longest() - b.Longest() })
			step := func(length int) error {
				at := length * (len(batches) - 1)
				_, err := r.engine.Step(t.Context(), batches[at:at+1], 0.1)
				return err
			}
			for _, length := range tt.right {
				if err := step(length); err != nil {
					t.Fatal(err)
				}
			}
			if goesWrong = true; tt.again {
				check.Again()
			}
			for _, length := range tt.steps[:len(tt.steps)-1] {
				if err := step(length); err != nil {
					t.Fatal(err)
				}
			}
			before := r.parameters()
			err := step(tt.steps[len(tt.steps)-1])
			if crosscheck.Wrong(err) == nil || strings.Contains(err.Error(), "cannot be made again") {
				t.Fatalf("error %v", err)
			}
			for i, p := range r.parameters() {
				if !slices.Equal(p, before[i]) {
					t.Errorf("%s was updated", r.model.Params()[i].Name)
				}
			}
		})
	}
}
