package kerneltest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

// What outputs hold before the kernel writes them, in the first and the second run.
// An element that it leaves out keeps both.
var poisons = [2]byte{0x5a, 0xa5}

// checkPass runs a pass twice on the kernel, with outputs in m, and compares it with what
// is wanted. It also returns the largest error as a share of what is allowed.
func (in *inputs) checkPass(ctx context.Context, k core.Kernel, pass core.Pass, want expected,
	m *memory) (share float64, violations []Violation) {
	var runs [2]*core.Call
	for i := range runs {
		c, outputs, err := in.call(pass, m)
		if err != nil {
			return 0, []Violation{violation(pass, "", err)}
		}
		if err := runPoisoned(ctx, k, c, poisons[i]); err != nil {
			return 0, []Violation{violation(pass, "", err)}
		}
		violations = append(violations, in.checkUntouched(pass, outputs)...)
		runs[i] = c
	}
	for i, a := range tensors(runs[0].Sig.Out) {
		if err := sameBits(runs[0].Out[i], runs[1].Out[i]); err != nil {
			violations = append(violations, violation(pass, a.Name, err))
			continue
		}
		s, err := want.compare(i, runs[0].Out[i])
		share = max(share, s)
		if err != nil {
			violations = append(violations, violation(pass, a.Name, err))
		}
	}
	if len(violations) == 0 {
		violations = in.checkSums(ctx, k, runs[0], m)
	}
	return share, violations
}

// runPoisoned fills the outputs and runs the call.
func runPoisoned(ctx context.Context, k core.Kernel, c *core.Call, with byte) error {
	poison(c, with)
	if err := core.Run(ctx, k, c); err != nil {
		return fmt.Errorf("error: %w", err)
	}
	return nil
}

// poison makes the outputs of a call what the kernel is to overwrite.
func poison(c *core.Call, with byte) {
	for _, o := range c.Out {
		fill(o.Data, with)
	}
	furnishAll(c)
}

// furniture are the numbers that are there where a call keeps a part of an output, again and again.
var furniture = func() []float32 {
	v := make([]float32, 251)
	for i := range v {
		v[i] = float32(i)/64 - 2
	}
	return v
}()

// furnishAll puts into outputs of which the call keeps a part what is there before it: the same in every run.
func furnishAll(c *core.Call) {
	for i, x := range c.Out {
		if !c.Keeps(i) {
			continue
		}
		n := min(len(furniture), x.Elems())
		x.Store(furniture[:n], 0)
		for n := n * x.DType.Size(); 0 < n && n < len(x.Data); n *= 2 {
			copy(x.Data[n:], x.Data[:n])
		}
	}
}

// expected is what the reference gives for a pass, in float64 and in float32.
type expected struct {
	in           *inputs
	want, single *core.Call
}

// beside is how many bytes of inputs are worth another thread for the second reference:
// a plugin's threads, which stay awake for a moment, make it wait for a processor.
const beside = 1 << 18

// bytes is the size of all inputs.
func (in *inputs) bytes() int {
	n := 0
	for _, x := range in.tensors {
		n += len(x.Data)
	}
	return n
}

// expect runs the reference. What it saved becomes an input.
func (in *inputs) expect(ctx context.Context, pass core.Pass) (e expected, err error) {
	e.in = in
	var other error
	var both sync.WaitGroup
	single := func() { e.single, other = in.reference(ctx, reference.Single(in.Op), pass) }
	if in.bytes() > beside {
		both.Go(single)
	} else {
		single()
	}
	e.want, err = in.reference(ctx, reference.Kernel(in.Op), pass)
	both.Wait()
	if err = cmp.Or(err, other); err != nil {
		return e, err
	}
	return e, in.save(e.want)
}

// compare checks output i, and returns its error as a share of what is allowed.
func (e expected) compare(i int, got core.Tensor) (share float64, err error) {
	f, want, single := e.in.Facts, e.want.Out[i], e.single.Out[i]
	if want.DType == core.Int32 {
		return 0, sameIndices(got, want)
	}
	if e.want.Keeps(i) {
		return 0, sameCopies(got, want)
	}
	a, rows := tensors(e.want.Sig.Out)[i], 1
	if a.Shape[0] == core.DimT {
		rows = e.in.Tokens
	}
	sep := apart(got, want, single, rows)
	share, err = sep.judge(limit(f, sep.rounding()))
	if err != nil && !sep.mismatch { // whether terms cancel costs another run of the reference
		terms := e.in.terms(e.want.Pass, a.Name)
		sep.measure(terms)
		share, err = sep.judge(limit(f, sep.rounding()))
		if moved := e.in.borders(e.want.Pass, a.Name); err != nil && moved != nil {
			sep = apart(nearer(got, want, moved), want, single, rows)
			sep.measure(terms)
			share, err = sep.judge(limit(f, sep.rounding()))
		}
	}
	if err != nil || f.DType == core.Float32 || f.DType == core.Float64 {
		return share, err
	}
	if want.DType == core.Float32 {
		err = compareDigits(got, want, single)
	} else if want.DType == f.DType {
		if err = compareRounding(got, want, single, rows, nil); err != nil {
			err = compareRounding(got, want, single, rows, e.in.terms(e.want.Pass, a.Name))
		}
	}
	if err == nil && e.in.Kind == "random" && e.in.Tokens == 70 {
		err = truncates(f, got, want)
	}
	return share, err
}

func (in *inputs) reference(ctx context.Context, k core.Kernel, pass core.Pass) (*core.Call, error) {
	c, _, err := in.call(pass, heap{})
	if err == nil {
		err = runPoisoned(ctx, k, c, 0)
	}
	return c, err
}

// checkUntouched reports writes to inputs and beside outputs.
func (in *inputs) checkUntouched(pass core.Pass, outputs []guarded) []Violation {
	var violations []Violation
	for i, x := range in.tensors {
		if now := x.sum(); now != x.before {
			violations = append(violations,
				violation(pass, x.name, fmt.Errorf("%w: the kernel wrote to an input, or beside it", core.ErrWrongResult)))
			in.tensors[i].before = now
		}
	}
	for _, x := range outputs {
		if at, ok := x.intact(); !ok {
			violations = append(violations, violation(pass, x.name,
				fmt.Errorf("%w: the kernel wrote past the tensor, at byte %d of %d", core.ErrWrongResult, at, len(x.Data))))
		}
	}
	return violations
}

// sameBits compares two runs of one call.
func sameBits(a, b core.Tensor) error {
	if bytes.Equal(a.Data, b.Data) {
		return nil
	}
	size := a.DType.Size()
	for i := range a.Elems() {
		x, y := a.Data[i*size:(i+1)*size], b.Data[i*size:(i+1)*size]
		switch {
		case bytes.Equal(x, y):
		case isAll(y, poisons[1]) && isAll(x, poisons[0]):
			return fmt.Errorf("%w: element %v was not written", core.ErrWrongResult, index(a.Shape, i))
		case isAll(y, poisons[1]):
			return fmt.Errorf("%w: element %v was not written by the second of two calls",
				core.ErrWrongResult, index(a.Shape, i))
		default:
			return fmt.Errorf("%w: the same call gave other bits at %v", core.ErrWrongResult, index(a.Shape, i))
		}
	}
	return nil
}

func isAll(b []byte, v byte) bool { return bytes.Count(b, []byte{v}) == len(b) }

// tensors lists the arguments of a signature, one for each tensor: those with a Count as name[i].
func tensors(args []core.Arg) []core.Arg {
	if !slices.ContainsFunc(args, func(a core.Arg) bool { return a.Count != 1 }) {
		return args
	}
	var all []core.Arg
	for _, a := range args {
		for i := range a.Count {
			one := a
			if a.Count > 1 {
				one.Name = fmt.Sprintf("%s[%d]", a.Name, i)
			}
			all = append(all, one)
		}
	}
	return all
}
