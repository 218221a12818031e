package data

// Role is what an answer is in training on preferences.
type Role int8

// The roles. Plain is an answer to follow, or a text.
const (
	Plain      Role = iota
	Chosen          // the better of a pair, or marked as good
	Rejected        // the worse of a pair, or marked as bad
	Mismatched      // the answer to another prompt, of KTO
)
