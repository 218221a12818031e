package crosscheck

import "github.com/seed98097648/tune/core"

// Bytes returns about how much memory the comparison of a call takes that has so many tokens, in rows of seq, where
// that grows with the tokens or the vocabulary: the arrays of the larger pass.
func Bytes(op core.Op, f core.Facts, tokens, seq int) int64 {
	const single, double = 4, 8
	switch op {
	case core.LinearCrossEntropy: // the logits of a block; its rows of x; what each row of the weight has along directions
		n := min(tokens, lossTokens(f.Vocab))
		return int64(single*n*(f.Vocab+f.Dim) + f.Vocab*(single*(4*directions+1)+double))
	case core.GateUpSwiGLU:
		wide := 2 * f.Intermediate
		rooms := len(gateUp{}.room)
		if !f.Recompute {
			rooms--
		}
		return int64(single * rooms * wide * min(tokens, gateUpTokens(wide)))
	case core.Attention: // twice the scores of a block and half as much; gradients of keys and values, their norms and limits
		of := f.Heads * queries * min(tokens, seq)
		return int64(single*3*of + f.KVHeads*tokens*(2*single*f.HeadDim+6*double))
	case core.MoEExperts: // assignments of an expert that has twice its share; y or what dx is along directions
		n := min(tokens, 2*tokens*f.TopK/f.Experts)
		return int64(single * (n*(3*f.Dim+8*f.Intermediate) + tokens*f.Dim))
	}
	return 0
}
