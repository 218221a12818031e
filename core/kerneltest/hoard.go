package kerneltest

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

const (
	// sizesKind is the kind of the case that runs calls of many numbers of tokens, and keptKind that of the one that
	// has more inputs than may be kept.
	sizesKind = "memory over calls of many sizes"
	keptKind  = "memory over inputs known by number"

	// growthSizes is up to how many tokens calls have, and sizesLimit by how many bytes each number of them may let a
	// process grow: what a list of sizes takes, and garbage, but no buffer for each.
	growthSizes = 192
	sizesLimit  = 8 << 10

	// keptTimes is how many times over the inputs are more than may be kept, and keptLimit by how many times of that a
	// process may grow: it may be twice that with garbage, and has to make what it cannot keep.
	keptTimes = 8
	keptLimit = 3
)

// manySizes finds a kernel that keeps something for each number of tokens that it meets, such as a buffer or a table,
// and never gives it back: a run has as many numbers as its batches, or as the texts that it writes, are long.
func (t *trial) manySizes(ctx context.Context) error {
	process, ok := t.kernel.(Process)
	if !ok {
		return skipf("the kernel has no process of its own")
	}
	run := func(tokens int) error {
		one := *t
		one.of.Tokens, one.of.Seed = tokens, uint64(tokens)
		return one.withCalls(ctx, t.kernel, func(calls []*core.Call) error { return runAll(ctx, t.kernel, calls, 1) })
	}
	for range 2 { // what grows with the largest call
		if err := run(growthSizes); err != nil {
			return err
		}
	}
	const tries = 3 // each with sizes that the others have not
	least := 0.0
	for try := range tries {
		had, err := held(process)
		if err != nil {
			return err
		}
		n := 0
		for tokens := 1 + try; tokens < growthSizes; tokens += tries {
			if err := run(tokens); err != nil {
				return err
			}
			n++
		}
		has, err := held(process)
		if err != nil {
			return err
		}
		if by := float64(has.Memory-had.Memory) / float64(n); try == 0 || by < least {
			least = by
		}
		if least <= sizesLimit {
			break
		}
	}
	if t.Share = max(least/sizesLimit, 0); least > sizesLimit {
		t.fail(Violation{Text: fmt.Sprintf("the process grows by %.0f bytes with each number of tokens that it has not "+
			"met, limit %d: what is kept for each size of a call fills the memory in the end", least, sizesLimit)})
	}
	return nil
}

// keptWithin finds a kernel that keeps more of its inputs than it was allowed to, such as one that forgets nothing: a
// run gives an adapter another number at each step, and a model may be larger than the memory.
func (t *trial) keptWithin(ctx context.Context) error {
	single, allowed := t.options.Single, t.options.Kept
	process, ok := single.(Process)
	if !ok || allowed == 0 {
		return errNoSingle
	}
	return t.withCalls(ctx, single, func(calls []*core.Call) error {
		c, weights, size := calls[0], []int(nil), int64(0)
		for i, a := range tensors(c.Sig.In) {
			if !slices.ContainsFunc(a.Shape, func(n int) bool { return n < 0 }) {
				weights, size = append(weights, i), size+int64(len(c.In[i].Data))
			}
		}
		if err := runAll(ctx, single, calls[:1], 2); err != nil { // what is made once
			return err
		}
		had, err := held(process)
		if err != nil {
			return err
		}
		for range keptTimes*allowed/max(size, 1) + 1 {
			for _, i := range weights {
				c.In[i].Content = core.NewContent()
			}
			if err := core.Run(ctx, single, c); err != nil {
				return err
			}
		}
		has, err := held(process)
		if err != nil {
			return err
		}
		grown := has.Memory - had.Memory
		if t.Share = max(float64(grown)/float64(keptLimit*allowed), 0); t.Share > 1 {
			t.fail(Violation{Text: fmt.Sprintf("the process grows by %d bytes over %d times as many weights as it may "+
				"keep; TUNE_KEEP says that it may keep %d bytes", grown, keptTimes, allowed)})
		}
		return nil
	})
}
