package core

import (
	"fmt"
	"slices"
)

// Adding reports whether the call adds to the outputs of that name, of which all are alike. It
// panics on a name that the op does not have.
func (c *Call) Adding(name string) bool {
	at := 0
	for _, a := range c.Sig.Out {
		if a.Name == name {
			return len(c.Add) > 0 && c.Add[at]
		}
		at += a.Count
	}
	panic(fmt.Sprintf("core: %s %s has no output %q", c.Op, c.Pass, name))
}

// Adds reports whether the call adds to any output.
func (c *Call) Adds() bool { return slices.Contains(c.Add, true) }

// CanAdd reports whether calls of so many tokens can add to the outputs of that name.
func (i Info) CanAdd(output string, tokens int) bool {
	return slices.Contains(i.Adds, output) && (i.AddsTokens == 0 || tokens <= i.AddsTokens)
}

// Accepts verifies that a call is one for the kernel: it is of its op, passes Call.Check, and
// adds only to outputs that the kernel can add to. Errors wrap ErrBadCall.
func (i Info) Accepts(c *Call) error {
	if c.Op != i.Op {
		return fmt.Errorf("%w: the kernel is for %s", ErrBadCall, i.Op)
	}
	if err := c.Check(); err != nil {
		return err
	}
	at := 0
	for _, a := range c.Sig.Out {
		if len(c.Add) == 0 {
			break
		}
		add := c.Add[at : at+a.Count]
		at += a.Count
		switch {
		case !slices.Contains(add, true):
		case c.Pass != Backward || !i.CanAdd(a.Name, c.Tokens()) || a.DType != Float32:
			return fmt.Errorf("%w: %s %s of %d tokens is to add to %s, which the kernel does not say that it can", ErrBadCall,
				c.Op, c.Pass, c.Tokens(), a.Name)
		case slices.Contains(add, false):
			return fmt.Errorf("%w: %s %s is to add to some of %s and to overwrite others", ErrBadCall, c.Op, c.Pass, a.Name)
		}
	}
	return nil
}

// Apart returns the call with tensors of m, or of the Go heap if that is nil, in the place of
// the outputs that it adds to; it writes them. Join then does what the call itself would have
// done, to the bit. Free gives the memory back.
func (c *Call) Apart(m Memory) (apart *Call, free func(), err error) {
	a := *c
	a.Out, a.Add = slices.Clone(c.Out), nil
	var taken [][]byte
	free = func() {
		for _, b := range taken {
			m.Free(b)
		}
	}
	for i, add := range c.Add {
		switch {
		case !add:
		case m == nil:
			a.Out[i] = NewTensor(Float32, c.Out[i].Shape...)
		default:
			if a.Out[i], err = NewTensorIn(m, Float32, c.Out[i].Shape...); err != nil {
				free()
				return nil, nil, err
			}
			taken = append(taken, a.Out[i].Data)
		}
	}
	return &a, free, nil
}

// Join adds what a call of Apart has written.
func (c *Call) Join(apart *Call) {
	for i, add := range c.Add {
		if add {
			sum := c.Out[i].Float32s()
			for j, v := range apart.Out[i].Float32s() {
				sum[j] += v
			}
		}
	}
}
