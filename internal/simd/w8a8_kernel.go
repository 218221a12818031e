package simd

// int8Kernel computes blocks of sums of products of int8, for up to so many rows and columns.
type int8Kernel struct {
	name       string
	rows, cols int
	// block sets sums[i*cols+j] to the product of row i of q and row j of w, which have k elements each; of has the
	// sums of the rows of q. How many rows there are, the lengths say.
	block     func(sums []int32, q, w []int8, of []int32, k int)
	needsSums bool // of the rows of q
	// long are those of one row, of two and of four, for n columns, a multiple of sumsAtOnce, of which k is a multiple of
	// longTerms: sums[i*n+j] is the product of row i of q and row j of w. Those that are not there are nil.
	long [3]func(k, n int, q, w *int8, of, sums *int32)
	// quantise does so for multiples of 32, see QuantiseStatic; nil: there is none.
	quantise func(q []int8, x []float32, scale float32, offset int32)
	largest  func(x []float32) uint32 // see largestBits
	// scaleSums sets dst[i] = sums[i]*s*scale[i].
	scaleSums func(dst []float32, sums []int32, scale []float32, s float32)
}

// int8Kernels are those that this CPU can run, the fastest first.
var int8Kernels = append(int8Assembly(), &genericInt8)

// activeInt8 is the one in use. Only tests set it again.
var activeInt8 = int8Kernels[0]

var genericInt8 = int8Kernel{name: "generic", rows: 1, cols: 1, block: func(sums []int32, q, w []int8, _ []int32, k int) {
	sums[0] = dotInt8(q, w[:k])
}, largest: largestBits, scaleSums: scaleSums}

// dotInt8 is the product of two rows.
func dotInt8(a, b []int8) int32 {
	var sum int32
	b = b[:len(a)]
	for i, v := range a {
		sum += int32(v) * int32(b[i])
	}
	return sum
}

// longTerms is what the terms of a long product are a multiple of.
const longTerms = 64

// What longColumns does at a time: columns, and bytes of the weight where there are more than two rows. All but the first
// ones then find these in the first-level cache.
const (
	longAtOnce = 64
	longBytes  = 1 << 14
)

// longColumns computes columns of Y from lo on, and returns the first of those that are left, fewer than sumsAtOnce.
func (m *w8a8) longColumns(lo, hi int) int {
	p, width := m.p, longAtOnce
	if p.M > 2 {
		width = min(width, max(1, longBytes/p.K/sumsAtOnce)*sumsAtOnce)
	}
	most := len(activeInt8.long) - 1
	for activeInt8.long[most] == nil {
		most--
	}
	var sums [4 * longAtOnce]int32
	for end := lo + (hi-lo)/sumsAtOnce*sumsAtOnce; lo < end; {
		n := min(width, end-lo)
		for r := 0; r < p.M; {
			level, rows := 0, 1
			for level < most && 2*rows <= p.M-r {
				level, rows = level+1, 2*rows
			}
			activeInt8.long[level](p.K, n, &m.q[r*p.K], &p.Weight[lo*p.K], &m.sums[r], &sums[0])
			for i := range rows {
				m.finish(r+i, lo, sums[i*n:][:n])
			}
			r += rows
		}
		lo += n
	}
	return lo
}
