package core

import "fmt"

// CheckReturned verifies the outputs that decide what their reader does next, which are ids:
// they must be as Arg.Choices says. Errors name the output, the place and the
// number. What it verifies must lie where the kernel cannot write any more: a process that
// shares the memory can change it afterwards.
func (c *Call) CheckReturned() error {
	at := 0
	for _, a := range c.Sig.Out {
		for i, t := range c.Out[at : at+a.Count] {
			if a.Choices > 0 {
				if err := checkChoices(a.label(i), t, a.Choices); err != nil {
					return err
				}
			}
		}
		at += a.Count
	}
	return nil
}

// checkChoices verifies ids [..., K].
func checkChoices(name string, t Tensor, choices int) error {
	k := max(t.Shape[len(t.Shape)-1], 1)
	taken := make([]int, choices) // the last row that took each, counted from 1
	for i, id := range t.Int32s() {
		row := i/k + 1
		switch {
		case id < 0 || int(id) >= choices:
			return fmt.Errorf("it returned %s[%d,%d] = %d, which must be at least 0 and below %d",
				name, row-1, i%k, id, choices)
		case taken[id] == row:
			return fmt.Errorf("it returned %s[%d,%d] = %d, which that row has already", name, row-1, i%k, id)
		}
		taken[id] = row
	}
	return nil
}
