package attention

import "github.com/seed98097648/tune/core/vector"

// worker is what one goroutine needs for its tasks. n is the tokens of a segment, b the
// queries of a block, at most blockRows.
type worker struct {
	*call

	wide                  []float32     // [n,C]: a head of k or v that is not stored as float32
	keysAcross, keysAlong vector.Panels // k^T [C,n] and k [n,C]
	values                vector.Panels // v [n,C] of Forward, v^T [C,n] of Backward
	queries, gradients    []float32     // [b,C]: q/sqrt(C) and dy
	queriesPacked         vector.Panels // the same, of Backward
	gradientsPacked       vector.Panels
	out                   []float32 // [b,C]: y or dq
	scores, dscores       []float32 // [b,keys+gap]
	sum                   []float32 // [2,n,C]: dk and dv

	high         [blockRows]float32
	total, delta [blockRows]float64 // of exponentials; in Backward, total is 1 over the sum in the end
}
