package forecast

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/models"
)

// rest returns what a run has in memory besides the tensors of its graphs.
func rest(m *models.Model, r Run) []Part {
	parts := []Part{{"tokenizer", int64(m.Vocab()) * tokenBytes}}
	if r.KeepsBest {
		var n int64
		for _, p := range m.Trainable() {
			n += p.Bytes()
		}
		parts = append(parts, Part{"best weights", n})
	}
	if n := m.Adapter.BegunBytes(); n > 0 {
		parts = append(parts, Part{"beginnings", n})
	}
	if n := scratch(m, r); n > 0 {
		parts = append(parts, Part{"scratch", n})
	}
	if n := comparison(m, r); n > 0 {
		parts = append(parts, Part{"comparison", n})
	}
	return append(parts, Part{"programs", programs(r)})
}

// comparison is what comparing calls of kernels with the plain forward takes: one call's arrays at a time, with as
// many of the call before that are garbage by then. What a call adds to gradients is written apart, besides.
func comparison(m *models.Model, r Run) int64 {
	if !r.Compares {
		return 0
	}
	var arrays, apart int64
	for _, s := range m.Sites() {
		k := s.Hook.Kernel()
		if k == nil {
			continue
		}
		arrays = max(arrays, crosscheck.Bytes(s.Op, s.Facts, r.Batch*r.Seq, r.Seq))
		if r.Accumulate > 1 {
			apart = max(apart, added(s, k.Info(), r.Batch*r.Seq))
		}
	}
	return 2*arrays + apart
}

// added is the bytes of the gradients of weights that a call of a kernel adds to.
func added(s core.Site, k core.Info, tokens int) (bytes int64) {
	sig, err := core.NewSignature(s.Op, core.Backward, s.Facts)
	if err != nil {
		return 0
	}
	for _, out := range sig.Out {
		if k.CanAdd(out.Name, tokens) {
			bytes += int64(max(out.Count, 1)) * int64(core.Float32.Size()*out.Shape.Elems())
		}
	}
	return bytes
}

// tokenBytes is what a token takes in the tokenizer, with the text of its files, which a run saves with the model: 170
// to 350 bytes of six tokenizers of 32,000 to 152,000 tokens.
const tokenBytes = 320

// programs is what the processes take by themselves: those parts of a program that are used, and Go's runtime, of
// which plugins share little, with what threads pack matrices into.
func programs(r Run) int64 {
	const host, plugin = 40 << 20, 8 << 20
	return host + int64(r.Processes)*plugin
}

// scratch is what kernels take for themselves that grows with a batch. Each kernel keeps it from call to call.
func scratch(m *models.Model, r Run) int64 {
	return lossScratch(m, r) + attentionScratch(m, r) + expertsScratch(m, r.Batch*r.Seq) + tilesScratch(m, r)
}

// lossScratch is what the kernel of linear_cross_entropy keeps the logits of a chunk of tokens in: all that count
// in the loss take turns, but for as many as the gradient of the weight has room for. The sizes are those of
// npu_fused_linear_cross_entropy.
func lossScratch(m *models.Model, r Run) int64 {
	const row = 4 // bytes of a logit
	for _, s := range m.Sites() {
		if s.Op != core.LinearCrossEntropy || s.Hook.Kernel() == nil {
			continue
		}
		most, elsewhere := 16<<20, s.Facts.Dim
		if s.Facts.Frozen {
			most, elsewhere = 320<<20, 0
		}
		tokens := r.Batch * r.Seq
		chunk := evenly(tokens-elsewhere, max(112, most/row/s.Facts.Vocab)) // of all, which is the most that one is of
		if r.Counted > 0 {
			tokens = min(tokens, r.Counted)
		}
		return row * int64(s.Facts.Vocab+2*s.Facts.Dim) * int64(evenly(tokens-elsewhere, chunk))
	}
	return 0
}

// evenly returns how many of n make a chunk of at most so many, where chunks are alike.
func evenly(n, most int) int {
	if n <= 0 {
		return 0
	}
	chunks := (n + most - 1) / most
	return (n + chunks - 1) / chunks
}

// attentionScratch is what the kernel of attention needs for a row: each thread packs the keys and values of a head,
// and has a block of queries meet all of them; and the gradients of keys and values are summed by thread, or where
// several tasks share a head, in about twice as many parts. The sizes are those of npu_fused_attention.
func attentionScratch(m *models.Model, r Run) (most int64) {
	const number, block, gap, tasks = 4, 56, 16, 16 // bytes; queries; between rows of scores; at least
	threads := r.Threads
	if threads == 0 {
		threads = vector.Threads()
	}
	for _, s := range m.Sites() {
		if s.Op != core.Attention || s.Hook.Kernel() == nil {
			continue
		}
		head := r.Seq * s.Facts.HeadDim
		sums, heads := threads, r.Batch*s.Facts.KVHeads
		if heads < tasks {
			sums = min(2*threads, tasks)
		}
		each := 3*head + 2*block*(r.Seq+gap)
		most = max(most, number*int64(threads*each+2*head*sums))
	}
	return most
}

// expertsScratch is what the kernel of moe_experts keeps for the rows of a block, an assignment of a token to an
// expert each: x, dy, the gradients of g and u, h and its gradient. The sizes are those of npu_fused_moe.
func expertsScratch(m *models.Model, tokens int) (most int64) {
	const number, rows = 4, 4096 // bytes; of a block
	for _, s := range m.Sites() {
		if s.Op != core.MoEExperts || s.Hook.Kernel() == nil {
			continue
		}
		each := 2*s.Facts.Dim + 4*s.Facts.Intermediate
		most = max(most, number*int64(min(rows, tokens*s.Facts.TopK)*each))
	}
	return most
}
