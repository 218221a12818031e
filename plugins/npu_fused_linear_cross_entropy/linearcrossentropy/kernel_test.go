package linearcrossentropy

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/keep"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/simd/simdtest"
)

func TestConforms(t *testing.T) {
	kerneltest.Run(t, new(Kernel), kerneltest.Cases(core.LinearCrossEntropy))
}

// TestAgreesWithPublishedCode allows eight roundings of float32.
func TestAgreesWithPublishedCode(t *testing.T) {
	golden.Run(t, new(Kernel), core.Float32, 0x1p-20)
}

func use(d core.DType, tokens, dim, vocab int) kerneltest.Case {
	return kerneltest.Case{Op: core.LinearCrossEntropy, Tokens: tokens, Seed: 1, Facts: core.Facts{
		DType: d, WeightDType: d, Dim: dim, Vocab: vocab}}
}

// BenchmarkLinearCrossEntropy has a vocabulary of many chunks, and one of a single chunk.
func BenchmarkLinearCrossEntropy(b *testing.B) {
	for _, s := range [][3]int{{512, 1024, 32000}, {1024, 512, 8192}} {
		T, D, V := s[0], s[1], s[2]
		for _, d := range []core.DType{core.Float32, core.BFloat16} {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", T, D, V, d), func(b *testing.B) {
				c := use(d, T, D, V)
				// A quarter of the kit's labels are ignored. Backward has three products, and
				// the kit counts two.
				kerneltest.Benchmark(b, new(Kernel), c, 2*0.75*float64(T*D)*float64(V))
			})
		}
	}
}

func TestSupportsNamesTheFactAtFault(t *testing.T) {
	for want, change := range map[string]func(f *core.Facts){
		"storage float64": func(f *core.Facts) { f.DType = core.Float64 },
		"vocab":           func(f *core.Facts) { f.Vocab = 0 },
	} {
		f := use(core.Float32, 1, 4, 4).Facts
		if err := new(Kernel).Supports(f); err != nil {
			t.Fatal(err)
		}
		change(&f)
		if err := new(Kernel).Supports(f); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
}

// TestChunksHaveTheirRowsFromSomeVocabularyOn: of kernels as they are used. What they compute is tested with less room,
// as most of the time would go to softmaxes of the reference.
func TestChunksHaveTheirRowsFromSomeVocabularyOn(t *testing.T) {
	for rows := chunkRows; rows <= 3*chunkRows; rows += chunkRows {
		for frozen, bytes := range map[bool]int{false: chunkBytes, true: frozenBytes} {
			f := core.Facts{Vocab: bytes / 4 / rows, Frozen: frozen}
			if got := new(Kernel).rowsOf(f); got != rows {
				t.Errorf("frozen %v: chunks of %d rows, want %d", frozen, got, rows)
			}
		}
		f := core.Facts{Vocab: frozenBytes/4/chunkRows + rows, Frozen: true}
		if got := new(Kernel).rowsOf(f); got != chunkRows {
			t.Errorf("chunks of %d rows of a large vocabulary, want %d", got, chunkRows)
		}
	}
}

const (
	// chunkedRoom lets a chunk of chunkRows have the vocabulary of chunked, in two spans.
	chunkedRoom = 6 << 20
	// frozenRoom lets one of twice as many targets, of a frozen weight, have a vocabulary of three spans.
	frozenRoom = 12 << 20
)

// chunked is a use with dim 3, so that all targets but three are in chunks of chunkRows
// with scratch memory, of a kernel that has chunkedRoom. Two tokens have no label.
func chunked(targets int) kerneltest.Case {
	const vocab = chunkedRoom / 4 / chunkRows
	c := use(core.Float32, targets+2, 3, vocab)
	c.Name = fmt.Sprint(targets, " targets")
	c.Edit = func(in map[string][]core.Tensor) {
		labels := in["labels"][0].Int32s()
		for t := range labels {
			labels[t] = int32(t * 37 % vocab)
		}
		labels[0], labels[targets] = -100, -1
	}
	return c
}

func TestTargetsThatFillChunksOrDoNot(t *testing.T) {
	k := &Kernel{most: chunkedRoom}
	if got := k.rowsOf(chunked(1).Facts); got != chunkRows {
		t.Fatalf("chunks of %d rows, the tests want %d", got, chunkRows)
	}
	if got := len(spans(chunkRows, chunked(1).Facts)); got < 2 {
		t.Fatalf("%d spans, the tests want several", got)
	}
	// The scratch memory of k still has what the case before left there.
	kerneltest.Run(t, k, []kerneltest.Case{
		chunked(3 + 2*chunkRows), chunked(3 + 2*chunkRows + 1), chunked(2 + chunkRows), chunked(4), chunked(3), chunked(2), chunked(1),
	})
}

// TestTargetsOfAFrozenWeight: they come in chunks from the first on, of more rows.
func TestTargetsOfAFrozenWeight(t *testing.T) {
	vocab, k := frozenRoom/4/(2*chunkRows), &Kernel{most: frozenRoom}
	for _, targets := range []int{1, 2*chunkRows + 1} {
		c := use(core.Float32, targets, 2, vocab)
		c.Facts.Frozen = true
		if got := k.rowsOf(c.Facts); got != 2*chunkRows {
			t.Fatalf("chunks of %d rows, the test wants %d", got, 2*chunkRows)
		}
		kerneltest.Run(t, k, []kerneltest.Case{c})
	}
}

// TestRoomIsForAsManyTargetsAsThereMayBe: calls with fewer and more labels than those before find the memory that
// the first has taken.
func TestRoomIsForAsManyTargetsAsThereMayBe(t *testing.T) {
	const rows, tokens = 3 * chunkRows, 4 * chunkRows // in two chunks, and fewer labels would fill a larger one
	k, first := &Kernel{most: frozenRoom}, 0
	for _, labels := range []int{chunkRows, tokens, rows, 1} {
		c := use(core.Float32, tokens, 2, frozenRoom/4/rows)
		c.Facts.Frozen = true
		if got := k.rowsOf(c.Facts); got != rows {
			t.Fatalf("chunks of %d rows, the test wants %d", got, rows)
		}
		c.Edit = func(in map[string][]core.Tensor) {
			for i := range in["labels"][0].Int32s()[labels:] {
				in["labels"][0].Int32s()[labels+i] = -1
			}
		}
		_, backward, err := kerneltest.Calls(t.Context(), k, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Backward(t.Context(), backward); err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = cap(k.logits)
		}
		if want := tokens / 2 * c.Facts.Vocab; first != want || cap(k.logits) != first {
			t.Errorf("%d labels: room for %d logits, %d at first, want %d", labels, cap(k.logits), first, want)
		}
	}
}

// spanned is a use whose logits are in dweight, in two spans, the second one narrow. The
// labels are at both ends of each.
func spanned(d core.DType) kerneltest.Case {
	const targets, width = 8, tileElems / 8
	c := use(d, targets+1, targets, width+7)
	c.Name = d.String()
	c.Edit = func(in map[string][]core.Tensor) {
		copy(in["labels"][0].Int32s(), []int32{0, width - 1, width, width + 6, -100, 5, width, width + 3, width - 1})
	}
	return c
}

func TestVocabulariesOfSeveralSpans(t *testing.T) {
	kerneltest.Run(t, new(Kernel), []kerneltest.Case{spanned(core.Float32), spanned(core.BFloat16), spanned(core.Float16)})
}

// TestASpanWithoutAFiniteLogit: the logits of the first span are all -Inf.
func TestASpanWithoutAFiniteLogit(t *testing.T) {
	c := spanned(core.Float32)
	labels := c.Edit
	c.Edit = func(in map[string][]core.Tensor) {
		labels(in)
		x, weight := in["x"][0].Float32s(), in["weight"][0].Float32s()
		for i := range x {
			x[i] = 1
		}
		for i := range tileElems {
			weight[i] = float32(math.Inf(-1))
		}
	}
	kerneltest.Run(t, new(Kernel), []kerneltest.Case{c})
}

func TestBitsDoNotDependOnThreads(t *testing.T) {
	simdtest.SameBits(t, &Kernel{most: chunkedRoom}, chunked(chunkRows+9))
	simdtest.SameBits(t, new(Kernel), spanned(core.BFloat16))
}

// TestATokenWithoutALabelTouchesNothing: its x may be anything, and the bits of all
// others' outputs are as if it were not there.
func TestATokenWithoutALabelTouchesNothing(t *testing.T) {
	run := func(ignored float32) *core.Call {
		c := use(core.Float32, 9, 5, 11)
		c.Edit = func(in map[string][]core.Tensor) {
			in["labels"][0].Int32s()[4] = -100
			in["x"][0].Store([]float32{ignored, ignored, ignored, ignored, ignored}, 4*5)
		}
		_, backward, err := kerneltest.Calls(t.Context(), new(Kernel), c)
		if err == nil {
			err = core.Run(t.Context(), new(Kernel), backward)
		}
		if err != nil {
			t.Fatal(err)
		}
		return backward
	}
	finite, nan := run(1), run(float32(math.NaN()))
	for i, x := range finite.Out {
		if !bytes.Equal(x.Data, nan.Out[i].Data) {
			t.Errorf("%s depends on a token that has no label", finite.Sig.Out[i].Name)
		}
	}
}

// TestScratchMemoryIsThatOfAChunk gives the kernel many more tokens than a chunk has.
func TestScratchMemoryIsThatOfAChunk(t *testing.T) {
	k := &Kernel{most: chunkedRoom}
	c := chunked(4 * chunkRows)
	_, backward, err := kerneltest.Calls(t.Context(), k, c)
	if err == nil {
		err = k.Backward(t.Context(), backward)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := 4 * (cap(k.logits) + cap(k.tile) + cap(k.x) + cap(k.dx)); n > chunkedRoom+4*tileElems+4*forwardRows*2*c.Facts.Dim {
		t.Errorf("%d bytes of scratch memory", n)
	}
}

// TestWhatIsKeptOfAFrozenWeight changes no bit, and serves any number of targets.
func TestWhatIsKeptOfAFrozenWeight(t *testing.T) {
	if !vector.HasTiles() {
		t.Skip("nothing of the head is kept without units for tiles")
	}
	const dim, vocab = 260, keptWidth + 300
	before, k := keep.Held(), new(Kernel)
	var data []byte
	for _, tokens := range []int{190, 260} {
		c := use(core.Float32, tokens, dim, vocab)
		c.Facts.Frozen = true
		_, backward, err := kerneltest.Calls(t.Context(), k, c)
		if err != nil {
			t.Fatal(err)
		}
		if data == nil {
			data = bytes.Clone(backward.Input("weight").Data)
		}
		copy(backward.Input("weight").Data, data)
		var plain [][]byte
		for _, content := range []uint64{0, 1 << 61, 1 << 61} {
			weight := backward.Input("weight")
			weight.Content = content
			backward.Set("weight", weight)
			if err := core.Run(t.Context(), k, backward); err != nil {
				t.Fatal(err)
			}
			for i, x := range backward.Out {
				if content == 0 {
					plain = append(plain, bytes.Clone(x.Data))
				} else if !bytes.Equal(x.Data, plain[i]) {
					t.Errorf("%d tokens: %s has other bits where the weight is kept", tokens, backward.Sig.Out[i].Name)
				}
			}
		}
	}
	if held := keep.Held() - before; held < 2*6*dim*vocab || held > 2*6*(dim+32)*(vocab+2*32) {
		t.Errorf("%d bytes are kept, of the same weight for two numbers of targets", held)
	}
}

func TestALabelPastTheVocabularyIsNamed(t *testing.T) {
	_, backward, err := kerneltest.Calls(t.Context(), new(Kernel), use(core.Float32, 5, 4, 6))
	if err != nil {
		t.Fatal(err)
	}
	backward.Input("labels").Int32s()[3] = 6
	err = core.Run(t.Context(), new(Kernel), backward)
	if !errors.Is(err, core.ErrBadCall) || !strings.Contains(err.Error(), "labels[3] is 6, the vocabulary has 6") {
		t.Errorf("error %v", err)
	}
}
