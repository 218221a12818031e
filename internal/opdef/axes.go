package opdef

import "github.com/seed98097648/tune/core"

// The sizes of an axis. Kernels work in blocks of 4 to 256, and treat what is left over by
// other code; they have tables and buffers of fixed sizes, indices of 8 and 16 bits, and
// thresholds from which on another algorithm or another thread takes part.
const (
	// EveryRest is two blocks of 64 and two more: every rest of every block up to that size,
	// behind a whole one at least, and the first of 128.
	EveryRest = 2*64 + 2
	// Rests32 is the same for blocks of 32, for sizes whose change takes a plugin long.
	Rests32 = 2*32 + 2
	// SomeRests is the same for blocks of 16, for uses that differ from the first of an op
	// in what is no size.
	SomeRests = 2*16 + 2
	// Blocks256 is where the rests of blocks of 256 end.
	Blocks256 = 2*256 + 1
	// Beyond16 is more than an index of 16 bits can count, and no multiple of a block.
	Beyond16 = 65536 + 4*256 + 6
	// VerifyElems is the most weight elements that kerneltest.Verify allocates: 16 MiB of float32.
	VerifyElems = 4 << 20
)

// Axis is one size of an op, such as the number of tokens or of experts.
type Axis struct {
	Name  string
	Rests int   // every size up to this is a case
	Step  int   // from there to Blocks256, one in so many is; 0 for none
	Large []int // and these
	Set   func(u *Use, n int)
}

// Wide and Long are large sizes of a width, such as dim, and numbers of tokens: past blocks
// of many sizes, with an even rest and with an odd one, and more than an index of 16 bits can
// count. The first stands for all in kinds of use after the first.
var (
	Wide = []int{4102, 258, 514, 1024, 1026, 2050, 3077, 8194, 65542}
	Long = []int{4102, 1024, 1026, 1029, 2050, 3077, Beyond16}
)

// TokensAxis is the number of tokens; past so many, shrink makes the other sizes small.
func TokensAxis(past int, shrink func(f *core.Facts)) Axis {
	return Axis{Name: "tokens", Rests: EveryRest, Step: 7, Large: Long, Set: func(u *Use, n int) {
		if u.Tokens = n; n > past {
			shrink(&u.Facts)
		}
	}}
}
