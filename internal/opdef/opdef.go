// Package opdef is what the folders of package ops are written with: the struct that each of
// them fills in, and what several have in common.
//
// In formulas, T are tokens, D dim, I intermediate, E experts, K experts per token;
// s(g) = 1/(1+exp(-g)) is the sigmoid.
package opdef

import (
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
)

// Op is what is known of an op. Facts are without dtypes, unless one is to be another than
// those of the case. Every op has all fields but those whose comment says "if".
type Op struct {
	Name core.Op
	// Single and Double compute a call that is right, in float32 and in float64.
	Single, Double func(c *core.Call)

	// Usual is how models use the op, in small sizes; each of Changes, if there are others,
	// gives one fact that is no size another value.
	Usual   core.Facts
	Changes []func(f *core.Facts)
	// Kinds are uses in sizes that are as small as can be, for each variant that is no size.
	Kinds []core.Facts
	// Variants are uses in odd and even sizes.
	Variants []core.Facts

	Positions int // rows of the tables, if the op has some
	// Fill, if standard normal values will not do, makes of them such as the input has in a
	// model. Indices fills an int32 input, if there is one; Settle, if set, comes last.
	Fill    func(in *Inputs, rng *rand.Rand, a core.Arg, v []float32)
	Indices func(in *Inputs, rng *rand.Rand, v []int32)
	Settle  func(in *Inputs, rng *rand.Rand)

	NotFinite Edit     // puts in NaN and infinities
	Zeros     []string // inputs that are made zeros for every second token
	// Cases are what is special about the op, if anything is; Extremes have values at the
	// ends of what arithmetic can hold.
	Cases, Extremes func(f core.Facts, add Adder)
	Axes            []Axis
	Large           []Large

	// Terms returns, for each element of an output, the size of the terms that it is the sum
	// of: the root of the sum of their squares, which is how independent roundings of them
	// add up. Where terms cancel, the result is much smaller, and an error as large as theirs
	// is no mistake of the kernel; elsewhere the two are about alike. nil means that the op
	// adds nothing up there. The sums are those of the formulas. Where these multiply a sum
	// by something, its terms are multiplied, and count as the terms of the product.
	Terms func(in *Inputs, pass core.Pass, output string) []float64
	// Borders, if the op rounds a sum before it is multiplied again, returns for each element of an output by
	// how much it moves where such sums lie so near the middle between two numbers that an error as that of
	// float32 decides which they become; nil for none. The formulas round what they add up in float64.
	Borders func(in *Inputs, pass core.Pass, output string) []float64
	// Stack, if layers of the op can be stacked, says how; it gives nil for facts of which
	// they cannot.
	Stack     func(f core.Facts) *Stack
	TokenWise bool // if each token is treated by itself, and soon
	// Verify, if set, changes how kerneltest.Verify asks about a site's facts.
	Verify func(u *Use)

	// Shapes and Tokens are what the op is measured with: a few tokens, so that most tensors
	// stay in a cache, and as many as a batch has. Batch, if set, makes of random inputs such
	// as a trainer has. LossToo is set if the backward pass gives what the forward pass
	// does, so that nobody runs both.
	Shapes  []Shape
	Tokens  []int
	Batch   Edit
	LossToo bool

	// Recordings, if published code of the op was recorded, are the files, and Recorded makes
	// of a variant in one of them a use of the op. See package golden.
	Recordings []string
	Recorded   func(r Recording) Example

	// Fast, if the project has a kernel of its own, says where plugins.Sources has it, and how it
	// is made: authors may begin with it instead of with the plain one in the folder scaffold.
	Fast Fast
}

// Edit changes inputs after they were filled: the tensors of both passes by name, without
// those that the forward pass saves.
type Edit = func(in map[string][]core.Tensor)

// Use is a use of an op that is about to be a case.
type Use struct {
	Facts             core.Facts
	Tokens, Positions int
	Edit              Edit
}

// Adder adds a case of a kind, with so many tokens, its facts changed.
type Adder func(kind string, tokens int, edit Edit, change ...func(f *core.Facts))

// Large is past a block in all sizes at once, and has more than 2^20 elements, or products,
// which is where kernels begin to share work among threads.
type Large struct {
	Tokens int
	Change func(f *core.Facts)
	Edit   Edit // nil if the data are as they come
}

// Stack says how layers of an op are stacked.
type Stack struct {
	Next map[string]string // outputs of a layer, and which inputs of the next they are
	// Residual says that the next layer gets the sum of the input and the output: without it,
	// experts on top of each other square their input's scale, and its errors, each time.
	Residual bool
	// Around says around what, and near it, weights are to be: what multiplies an activation
	// near 1, so that after many layers the largest element is not alone; what is added to
	// it near 0, so that errors do not square.
	Around map[string]float64
}

// Shape is what an op is measured with beside the number of tokens and the dtype.
type Shape struct {
	Name  string // what follows the tokens in the name
	Facts core.Facts
}

// Inputs are those of both passes of a case, by name.
type Inputs struct {
	Facts             core.Facts
	Tokens, Positions int
	Named             map[string][]core.Tensor
}

// Fast is a kernel of the project's own.
type Fast struct {
	Folder string // of its package
	Kernel string // the expression that makes it
}
