// Package keep is for kernels that keep what they have made of an input from call to call: the
// packed panels of a weight that is not trained, or a copy of it on a device.
//
// A call gives the content of an input a number (core.Tensor.Content), if it knows when that
// changes. A Store finds under this number what was made of it, wherever the input lies by
// then, and never anything that was made of other bytes. Bits of a result must not depend on
// whether something was kept: memory may be short, and a process that has died and was
// started again begins with nothing.
//
// # Memory
//
// All stores of a process together keep at most Limit bytes, and none keeps anything that
// would leave less than an eighth of the machine's memory free. What would be too much is
// not kept, instead of putting out what is there: weights are used in the same order again
// and again, so that putting out the oldest would find nothing any more. What was not asked
// for in a long time is forgotten: a weight that was trained, or was of a model that is
// gone, has left a number that will not come again.
package keep

import (
	"maps"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/wire"
)

// held is what all stores of the process keep.
var held atomic.Int64

// Limit returns how many bytes the stores of this process keep at most: what the host says, or,
// in a kernel that is linked into a program, an eighth of the machine's memory.
func Limit() int64 { return limit() }

var limit = sync.OnceValue(func() int64 {
	if n, err := strconv.ParseInt(os.Getenv(wire.EnvKeep), 10, 64); err == nil {
		return max(n, 0)
	}
	return memory.Total() / 8
})

// Held returns how many bytes the stores of this process keep.
func Held() int64 { return held.Load() }

// most inputs that a value may be made of.
const most = 3

// key is what a value was made for, and the contents that it was made of.
type key[U comparable] struct {
	use      U
	contents [most]uint64
}

type kept[T any] struct {
	value T
	bytes int64
	asked uint64 // when it was last asked for, counted in questions
}

// Store keeps values made of inputs. Its zero value is ready. As a kernel it is for one call at
// a time. U is what tells apart values that are made of the same inputs: for what they are, and of which
// part, in which shape.
type Store[U comparable, T any] struct {
	kept  map[key[U]]*kept[T]
	asked uint64
}

// Of returns what create has made of the inputs, three at most, now or in an earlier call. bytes is
// the memory that the value takes. If nothing tells when an input changes, or there is no room, ok is
// false, and nothing was made: the kernel does without.
func (s *Store[U, T]) Of(use U, bytes int64, create func() T, inputs ...core.Tensor) (value T, ok bool) {
	k := key[U]{use: use}
	for i, x := range inputs {
		if k.contents[i] = x.Content; x.Content == 0 {
			return value, false
		}
	}
	s.asked++
	if e := s.kept[k]; e != nil {
		e.asked = s.asked
		return e.value, true
	}
	s.forget()
	if !reserve(bytes) {
		return value, false
	}
	if s.kept == nil {
		s.kept = map[key[U]]*kept[T]{}
	}
	value = create()
	s.kept[k] = &kept[T]{value, bytes, s.asked}
	return value, true
}

// forget drops what nobody has asked for while everything else was, many times over.
func (s *Store[U, T]) forget() {
	maps.DeleteFunc(s.kept, func(_ key[U], e *kept[T]) bool {
		old := s.asked-e.asked > 64+8*uint64(len(s.kept))
		if old {
			held.Add(-e.bytes)
		}
		return old
	})
}

// reserve counts bytes as kept, if there is room for them.
func reserve(bytes int64) bool {
	if held.Add(bytes) <= Limit() {
		if free := memory.Available(); free == 0 || free-bytes >= memory.Total()/8 {
			return true
		}
	}
	held.Add(-bytes)
	return false
}
