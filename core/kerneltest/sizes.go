package kerneltest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops"
)

// Sizes returns cases of op that differ in one size at a time, the others being small, and
// some that are large in all: for each axis every size up to 130 and some beyond, up to
// more than 65,536 where an op can have that. Kinds of use and storage types after the first
// of an op have fewer large ones; all of them have the axes run through the sizes up to 34
// together, each with another one. Kinds whose products are rounded are computed by other code, and the first of
// them is a first one, too. They are many, and Examine runs them; in a test, they take Run some seconds.
func Sizes(op core.Op) []Case {
	return sizes(op, func(core.Facts) error { return nil })
}

// sizes is Sizes for a kernel: the first kind and storage type are the first that it supports.
func sizes(op core.Op, supports func(core.Facts) error) []Case {
	var cases []Case
	fits := func(f core.Facts) bool { _, ok := fit(supports, f); return ok }
	if !slices.ContainsFunc(storage(), func(d core.DType) bool { return slices.ContainsFunc(kinds(op, d), fits) }) {
		fits = func(core.Facts) bool { return true } // larger sizes may fit
	}
	types := 0
	for _, d := range storage() {
		seen := map[core.DType]int{}
		for _, f := range kinds(op, d) {
			if !fits(f) { // these are skipped, and say so
				cases = append(cases, atOnce(op, f, ops.Of(op).Axes)...)
				continue
			}
			cases = append(cases, sizesOf(op, f, types, seen[f.Products])...)
			seen[f.Products]++
		}
		if len(seen) > 0 {
			types++
		}
	}
	return cases
}

// sizesOf is Sizes for one kind of use, where i storage types and j kinds of this one were before.
func sizesOf(op core.Op, f core.Facts, i, j int) []Case {
	var cases []Case
	axes := ops.Of(op).Axes
	cases = append(cases, atOnce(op, f, axes)...)
	if i+j == 0 {
		cases = append(cases, withTokens(op, f, axes, "one token", 1, 0)...)
		cases = append(cases, withTokens(op, f, axes, "whole rows", fullRows, opdef.SomeRests-1)...)
		cases = append(cases, largeOfOneToken(op, f, axes)...)
	}
	for _, a := range axes {
		if i+j > 0 { // the first of the large sizes stand for all
			a.Rests, a.Step, a.Large = 0, 0, a.Large[:max(1, min(len(a.Large), 4-2*i-j))]
		}
		cases = append(cases, along(a, op, f)...)
	}
	cases = append(cases, wholeBlocks(op, f, i+j == 0)...)
	for n, l := range ops.Of(op).Large {
		if i+j < 2 || i == 0 && n == 0 {
			cases = append(cases, sized(op, f, "large in all sizes", l.Tokens, func(u *opdef.Use, n int) {
				u.Tokens, u.Edit = n, l.Edit
				l.Change(&u.Facts)
			}))
		}
	}
	return cases
}

// along returns a case for each size of the axis.
func along(a opdef.Axis, op core.Op, f core.Facts) []Case {
	var cases []Case
	for n := 1; n <= a.Rests; n++ {
		cases = append(cases, sized(op, f, "sizes of "+a.Name, n, a.Set))
	}
	for n := a.Rests + 1; a.Step > 0 && n <= opdef.Blocks256; n += a.Step {
		cases = append(cases, sized(op, f, "sizes of "+a.Name, n, a.Set))
	}
	for _, n := range a.Large {
		cases = append(cases, sized(op, f, "large "+a.Name, n, a.Set))
	}
	return cases
}

// atOnce returns cases in which every axis has another size, so that each runs through all
// up to opdef.SomeRests.
func atOnce(op core.Op, f core.Facts, axes []opdef.Axis) []Case {
	return together(op, f, axes, "sizes of all at once", 0, func(*opdef.Use) {})
}

// fullRows is a number of tokens that leaves nothing of blocks of rows but a few that are full.
const fullRows = 48

// withTokens is atOnce with so many tokens, which other code computes: a single one is a product of a vector, and
// a whole block of rows meets the rests of columns. Each size is larger by more.
func withTokens(op core.Op, f core.Facts, axes []opdef.Axis, of string, tokens, more int) []Case {
	return together(op, f, axes, "sizes of all, "+of, more, func(u *opdef.Use) { u.Tokens = tokens })
}

// together has cases with all axes, and if some of these make another use of this one, such as the rank of an adapter
// or a window, with those that do not: a kernel has other code for uses without.
func together(op core.Op, f core.Facts, axes []opdef.Axis, kind string, more int, edit func(u *opdef.Use)) []Case {
	cases := otherSizes(op, f, axes, kind, more, edit)
	own := slices.DeleteFunc(slices.Clone(axes), func(a opdef.Axis) bool {
		u := opdef.Use{Facts: f, Tokens: 5, Positions: ops.Of(op).Positions}
		a.Set(&u, 2)
		return slices.ContainsFunc(choices, func(c choice) bool { return c.Of(u.Facts) != c.Of(f) })
	})
	if len(own) < len(axes) {
		cases = append(cases, otherSizes(op, f, own, kind, more, edit)...)
	}
	return cases
}

// otherSizes has each of the axes at another size than the others.
func otherSizes(op core.Op, f core.Facts, axes []opdef.Axis, kind string, more int, edit func(u *opdef.Use)) []Case {
	var cases []Case
	for n := 1; n <= opdef.SomeRests; n += max(1, len(axes)-1) {
		cases = append(cases, sized(op, f, kind, n, func(u *opdef.Use, n int) {
			for i, a := range axes {
				if a.Rests >= opdef.SomeRests {
					a.Set(u, (n+7*i-1)%opdef.SomeRests+1+more)
				}
			}
			u.Tokens = n + more // as the first axis has set it, and another may have since
			edit(u)
		}))
	}
	return cases
}

// wholeBlocks returns cases of which all sizes are so many blocks that nothing is left, and all tensors are aligned:
// those that models have, for which kernels have code without any of the rest. The ranks of adapters are half of that,
// also for uses that have none by themselves.
func wholeBlocks(op core.Op, f core.Facts, large bool) []Case {
	blocks := []int{16, 32, 64}
	if large {
		blocks = append(blocks, 128)
	}
	var cases []Case
	for _, n := range blocks {
		whole := func(u *opdef.Use, n int) {
			u.Tokens, u.Facts = n, coarse(u.Facts, n, n/2)
			if u.Facts.BlockSize = up(u.Facts.BlockSize, n); u.Facts.Dim == 0 {
				u.Facts.Experts = up(u.Facts.Experts, n)
			}
		}
		cases = append(cases, sized(op, f, wholeKind, n, whole))
		for _, a := range ops.Of(op).Axes {
			if a.Name == "rank" && f.Rank == 0 {
				cases = append(cases, sized(op, f, wholeKind, n, func(u *opdef.Use, n int) {
					whole(u, n)
					a.Set(u, n/2)
				}))
			}
		}
	}
	for i := range cases {
		cases[i].aligned = true
	}
	return cases
}

const wholeKind = "whole blocks of all sizes"

// isLarge reports whether a case is about a large size.
func isLarge(c Case) bool { return strings.HasPrefix(c.Kind, "large ") }

// largeOfOneToken returns a case of one token for each width.
func largeOfOneToken(op core.Op, f core.Facts, axes []opdef.Axis) []Case {
	var cases []Case
	for _, a := range axes {
		if len(a.Large) == 0 {
			continue
		}
		c := sized(op, f, "large "+a.Name+", one token", a.Large[0], func(u *opdef.Use, n int) {
			u.Tokens = 1
			a.Set(u, n)
		})
		if c.Tokens == 1 {
			cases = append(cases, c)
		}
	}
	return cases
}

// sized is a case with small sizes but for one.
func sized(op core.Op, f core.Facts, kind string, n int, set func(u *opdef.Use, n int)) Case {
	u := opdef.Use{Facts: f, Tokens: 5, Positions: ops.Of(op).Positions}
	set(&u, n)
	return Case{Kind: kind, Op: op, Facts: u.Facts, Tokens: u.Tokens, Positions: u.Positions, Edit: u.Edit,
		Seed: uint64(n), Name: fmt.Sprintf("%s %v T=%d %s %d", op, u.Facts, u.Tokens, kind, n)}
}
