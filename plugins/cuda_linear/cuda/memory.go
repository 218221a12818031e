package cuda

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/seed98097648/tune/core"
)

// memory is some of the device's.
type memory struct {
	at    uintptr
	bytes int
}

var errMemory = errors.New("its memory has no room")

// sizeOf rounds a number of elements up to a size in bytes of which there are eight between a power of two and
// the next, so that calls with other numbers of tokens find what is there.
func sizeOf(elems int) int {
	const least = 512
	bytes := max(elems*float32Bytes, least)
	step := 1 << max(bits.Len(uint(bytes-1))-4, 0)
	return (bytes + step - 1) / step * step
}

// reserve is which part of the device's memory is left to others, as long as that can be: a sixteenth. cuBLAS takes
// some when it needs it.
const reserve = 16

// alloc returns memory for so many elements. If there is none, it drops what is there for later passes, and then takes
// what is left to others.
func (p *Pass) alloc(elems int) (memory, error) {
	m := memory{bytes: sizeOf(elems)}
	if spare := p.spare[m.bytes]; len(spare) > 0 {
		m.at, p.spare[m.bytes] = spare[len(spare)-1], spare[:len(spare)-1]
		return m, nil
	}
	var free, total uint64
	nothing := func() {}
	for _, try := range []struct {
		drop   func()
		leaves bool // a part of the memory to others
	}{{nothing, true}, {p.dropSpare, true}, {p.dropKept, true}, {nothing, false}} {
		try.drop()
		p.check("cuMemGetInfo", p.memInfo.Call(uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total))))
		if try.leaves && free < uint64(m.bytes)+total/reserve {
			continue
		}
		result := p.driver.alloc.Call(uintptr(unsafe.Pointer(&m.at)), uintptr(m.bytes))
		if uint32(result) != outOfMemory {
			return m, p.driver.check("cuMemAlloc", result)
		}
	}
	return m, fmt.Errorf("%w for %s: %s of %s are free; take fewer tokens at once (--batch, --seq)", errMemory,
		amount(uint64(m.bytes)), amount(free), amount(total))
}

// amount prints a number of bytes.
func amount(bytes uint64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%.3g KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// dropSpare gives back memory that nobody uses.
func (p *Pass) dropSpare() {
	for size, spare := range p.spare {
		for _, at := range spare {
			p.check("cuMemFree", p.free.Call(at))
		}
		delete(p.spare, size)
	}
}

// dropKept gives back what is kept of inputs, but for those of this pass.
func (p *Pass) dropKept() {
	for at, k := range p.kept {
		if k.pass != p.passes {
			p.check("cuMemFree", p.free.Call(k.memory.at))
			delete(p.kept, at)
		}
	}
}

// most inputs that a matrix is made of.
const most = 3

// kept is a matrix on the device that is made of inputs of calls.
type kept struct {
	memory   memory
	contents [most]uint64 // of the inputs; zero after a pass that failed
	pass     uint64       // when it was last asked for
}

func contentsOf(inputs []core.Tensor) (of [most]uint64, ok bool) {
	for i, x := range inputs {
		if of[i] = x.Content; x.Content == 0 {
			return of, false
		}
	}
	return of, true
}

// keep returns the place for what is made of inputs, the first of which is at that address, and whether it is there.
// What is trained comes back to its address with other contents, and takes over the place. It returns nil where
// another matrix of this pass has that, and after an error.
func (p *Pass) keep(address uintptr, elems int, contents [most]uint64) (k *kept, there bool) {
	k = p.kept[address]
	if k != nil && k.memory.bytes == sizeOf(elems) && k.contents == contents {
		k.pass = p.passes
		return k, true
	}
	if k != nil && k.pass == p.passes {
		return nil, false
	}
	if k != nil && k.memory.bytes != sizeOf(elems) {
		p.drop(address, k)
		k = nil
	}
	if k == nil {
		p.forget()
		m, err := p.alloc(elems)
		if err != nil {
			p.add(err)
			return nil, false
		}
		k = &kept{memory: m}
		p.kept[address] = k
	}
	k.pass, k.contents = p.passes, contents
	return k, false
}

// drop forgets what is kept, which no product of this pass reads.
func (p *Pass) drop(address uintptr, k *kept) {
	p.spare[k.memory.bytes] = append(p.spare[k.memory.bytes], k.memory.at)
	delete(p.kept, address)
}

// forget drops what nobody has asked for while everything else was, many times over: weights of a model that is gone.
func (p *Pass) forget() {
	for at, k := range p.kept {
		if p.passes-k.pass > 64+8*uint64(len(p.kept)) {
			p.drop(at, k)
		}
	}
}
