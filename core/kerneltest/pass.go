package kerneltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
)

// What outputs hold before the kernel writes them, in the first and the second run.
// An element that it leaves out keeps both.
var poisons = [2]byte{0x5a, 0xa5}

// checkPass runs a pass twice on the kernel and compares it with the reference. After
// the forward pass, what the reference saved becomes an input of the backward pass.
func (in *inputs) checkPass(ctx context.Context, k core.Kernel, pass core.Pass) []error {
	if in.WantErr != nil {
		return in.checkRefusal(ctx, k, pass)
	}
	want, err := in.reference(ctx, reference.Kernel(in.Op), pass)
	if err != nil {
		return []error{err}
	}
	single, err := in.reference(ctx, reference.Single(in.Op), pass)
	if err != nil {
		return []error{err}
	}
	if err := in.save(want); err != nil {
		return []error{err}
	}

	var runs [2]*core.Call
	var violations []error
	for i := range runs {
		c, outputs, err := in.call(pass, in.memory)
		if err != nil {
			return []error{err}
		}
		for _, o := range c.Out {
			fill(o.Data, poisons[i])
		}
		if err := core.Run(ctx, k, c); err != nil {
			return []error{fmt.Errorf("error: %w", err)}
		}
		violations = append(violations, in.checkUntouched(outputs)...)
		runs[i] = c
	}
	for i, name := range names(want.Sig.Out) {
		if err := sameBits(runs[0].Out[i], runs[1].Out[i]); err != nil {
			violations = append(violations, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if want.Out[i].DType == core.Int32 {
			if err := sameIndices(name, runs[0].Out[i], want.Out[i]); err != nil {
				violations = append(violations, err)
			}
			continue
		}
		if err := compare(in.Facts, name, runs[0].Out[i], want.Out[i], single.Out[i]); err != nil {
			violations = append(violations, err)
		}
	}
	return violations
}

// checkRefusal runs a call that must fail.
func (in *inputs) checkRefusal(ctx context.Context, k core.Kernel, pass core.Pass) []error {
	if pass == core.Backward {
		c, _, err := in.call(core.Forward, heap{})
		if err != nil {
			return []error{err}
		}
		if err := in.save(c); err != nil { // their values do not matter
			return []error{err}
		}
	}
	c, _, err := in.call(pass, in.memory)
	if err != nil {
		return []error{err}
	}
	if err := core.Run(ctx, k, c); !errors.Is(err, in.WantErr) {
		return []error{fmt.Errorf("returned %v, want an error that wraps %q", err, in.WantErr)}
	}
	return nil
}

func (in *inputs) reference(ctx context.Context, k core.Kernel, pass core.Pass) (*core.Call, error) {
	c, _, err := in.call(pass, heap{})
	if err == nil {
		err = core.Run(ctx, k, c)
	}
	return c, err
}

// checkUntouched reports writes to inputs and beside outputs.
func (in *inputs) checkUntouched(outputs []guarded) []error {
	var violations []error
	for i, x := range in.tensors {
		if now := x.sum(); now != x.before {
			violations = append(violations, fmt.Errorf("%s: %w: the kernel wrote to an input, or beside it", x.name, core.ErrWrongResult))
			in.tensors[i].before = now
		}
	}
	for _, x := range outputs {
		if at, ok := x.intact(); !ok {
			violations = append(violations, fmt.Errorf("%s: %w: the kernel wrote past the tensor, at byte %d of %d", x.name, core.ErrWrongResult, at, len(x.Data)))
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
		case isAll(x, poisons[0]) && isAll(y, poisons[1]):
			return fmt.Errorf("%w: element %v was not written", core.ErrWrongResult, index(a.Shape, i))
		default:
			return fmt.Errorf("%w: the same call gave other bits at %v", core.ErrWrongResult, index(a.Shape, i))
		}
	}
	return nil
}

func isAll(b []byte, v byte) bool { return bytes.Count(b, []byte{v}) == len(b) }

// names lists the tensors of a signature, those with a Count as name[i].
func names(args []core.Arg) []string {
	var all []string
	for _, a := range args {
		for i := range a.Count {
			if a.Count > 1 {
				all = append(all, fmt.Sprintf("%s[%d]", a.Name, i))
			} else {
				all = append(all, a.Name)
			}
		}
	}
	return all
}
