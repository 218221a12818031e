package core

import "sync/atomic"

// lastContent numbers contents. Numbers are not used again.
var lastContent atomic.Uint64

// NewContent returns a number that this process has given to no content before, for
// Tensor.Content. Whoever sets it takes a new one whenever the bytes may have been written
// since, and sets 0 where somebody could write them unnoticed.
func NewContent() uint64 { return lastContent.Add(1) }
