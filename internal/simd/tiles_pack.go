package simd

import "unsafe"

// The sizes of a tile, and of the blocks that are computed at once, two by two tiles.
const (
	tileRows  = 16
	tileDepth = 32 // elements of the inner dimension that a tile has
	tileLanes = 2 * tileRows

	tileFloats  = 256 // a tile's bytes, counted in float32
	partsFloats = 2 * tileFloats
)

// tileKernel computes rows of c and all panels of b, which lie panel bytes apart, of so many columns:
// c = a*b, or c += a*b. room has the sizes of tiles, after what it uses; ahead is what comes next.
type tileKernel = func(steps int, a, b *byte, panel int, c *float32, stride, rows, cols int, add bool,
	room, ahead *byte)

// tileUnit has what is in assembly.
type tileUnit struct {
	// multiply has the kernels for 1 and 2 tiles of rows and of columns, and for operands of
	// one part and of three.
	multiply [2][2][2][2]tileKernel

	// What follows packs n tiles, as the plan says, and keeps the extremes of the elements.
	split  func(dst *byte, src *float32, n int, plan *int, extremes *uint32) // into three parts
	narrow func(dst *byte, src *float32, n int, plan *int, extremes *uint32) // the first part alone
	pair   func(dst *byte, src *uint16, n int, plan *int, extremes *uint32)
}

// splitPlan says where the elements lie that n tiles are made of: in each row of a tile, 16
// and, odd bytes after these, 16 more.
type splitPlan struct {
	stride, odd int // bytes
	next, tile  int // bytes from one tile to the next, in the source and in the result
	ahead       int // bytes to what is asked for, since it comes soon
	// phases are the 16 rows of a tile, those of a kind in each: masks of the elements there are.
	phases [3]struct{ rows, even, odd int }
}

// tilePack is a part of an operand, split and packed. A panel has 32 lanes, which are rows of op(a)
// or columns of op(b), and for each 32 elements of the inner dimension two tiles of each part. In
// tiles of a left operand a row is a lane, in those of a right operand a column, and a pair
// are the elements p and p+16 of the 32.
type tilePack struct {
	x            Matrix
	along, right bool // a lane is a row of the stored matrix; it is a right operand
	lane0, lanes int
	k0, kn       int
	parts        int // of which an element is the sum
	data         []float32
	ranges       []tileRange // of panels
}

// packOf plans a pack of steps [k0, k0+kn) of some lanes of x.
func packOf(x Matrix, along, right bool, lane0, lanes, k0, kn int) tilePack {
	return tilePack{x: x, along: along, right: right, lane0: lane0, lanes: lanes, k0: k0, kn: kn, parts: x.parts()}
}

// parts returns of how many bfloat16 an element is the sum.
func (x Matrix) parts() int {
	if x.Rounded || x.Load == nil && x.BFloat16 != nil {
		return 1
	}
	return 3
}

func (t *tilePack) panels() int { return ceilDiv(t.lanes, tileLanes) }

func (t *tilePack) steps() int { return ceilDiv(t.kn, tileDepth) }

// pitch returns how many float32 a panel has room for.
func (t *tilePack) pitch() int { return t.steps() * t.parts * partsFloats }

func (t *tilePack) size() int { return t.panels() * t.pitch() }

// room gives the pack its memory, and returns what is left.
func (t *tilePack) room(data []float32, ranges []tileRange) ([]float32, []tileRange) {
	t.data, t.ranges = data[:t.size()], ranges[:t.panels()]
	return data[t.size():], ranges[t.panels():]
}

// at returns where a panel has a step.
func (t *tilePack) at(panel, step int) *byte {
	return (*byte)(unsafe.Pointer(&t.data[panel*t.pitch()+step*t.parts*partsFloats]))
}

// panelsAtOnce is how many panels are packed together where lanes lie side by side, so that reading
// goes along the rows.
const panelsAtOnce = 8

// pack packs panels [from, to).
func (t *tilePack) pack(u *tileUnit, s *tileScratch, from, to int) {
	for i := range s.extremes[:to-from] {
		e := &s.extremes[i]
		for j := range tileRows {
			e[j], e[tileRows+j] = 0, ^uint32(0)
		}
	}
	for p := from; p < to && t.along; p++ {
		for half := range 2 {
			lane := p*tileLanes + half*tileRows
			if n := min(tileRows, t.lanes-lane); n > 0 {
				t.packAlong(u, s, p, half, t.lane0+lane, n, &s.extremes[p-from])
			}
		}
	}
	for step := 0; step < t.steps() && !t.along; step++ {
		t.packAcross(u, s, step, from, to)
	}
	for i := range to - from {
		t.ranges[from+i] = rangeOf(&s.extremes[i])
	}
}

// packAlong packs n lanes, rows of the stored matrix, for a half of a panel.
func (t *tilePack) packAlong(u *tileUnit, s *tileScratch, panel, half, lane, n int, extremes *[32]uint32) {
	src := t.source(s, lane, n, t.k0, t.kn, t.right)
	full, plan := t.kn/tileDepth, &s.plan
	if !t.right {
		*plan = splitPlan{stride: src.stride, odd: tileRows * src.size, next: tileDepth * src.size, tile: t.tileBytes(),
			ahead: 4 * tileDepth * src.size}
		plan.along(n, tileDepth)
		src.split(u, t.at(panel, 0), half, full, plan, extremes)
		if rest := t.kn % tileDepth; rest > 0 {
			plan.along(n, rest)
			src.skip(full*plan.next).split(u, t.at(panel, full), half, 1, plan, extremes)
		}
		return
	}
	src = t.turn(s, src, n, t.kn, tileRows)
	*plan = splitPlan{stride: src.stride, odd: tileRows * src.stride, next: tileDepth * src.stride, tile: t.tileBytes()}
	plan.across(n, tileDepth)
	src.split(u, t.at(panel, 0), half, full, plan, extremes)
	if rest := t.kn % tileDepth; rest > 0 {
		plan.across(n, rest)
		src.skip(full*plan.next).split(u, t.at(panel, full), half, 1, plan, extremes)
	}
}

// packAcross packs a step of panels [from, to), whose lanes are columns of the stored matrix.
func (t *tilePack) packAcross(u *tileUnit, s *tileScratch, step, from, to int) {
	k := step * tileDepth
	kn := min(tileDepth, t.kn-k)
	lane0 := from * tileLanes
	lanes := min(to*tileLanes, t.lanes) - lane0
	src := t.source(s, t.k0+k, kn, t.lane0+lane0, lanes, !t.right)
	plan := &s.plan
	var kind func(p *splitPlan, lanes, k int)
	if t.right {
		*plan = splitPlan{stride: src.stride, odd: tileRows * src.stride, next: tileRows * src.size,
			ahead: tileDepth * src.stride} // rows are too far apart to be guessed
		kind = (*splitPlan).across
	} else {
		src = t.turn(s, src, kn, lanes, tileDepth)
		*plan = splitPlan{stride: src.stride, odd: tileRows * src.size, next: tileRows * src.stride}
		kind = (*splitPlan).along
	}
	plan.tile = 4 * tileFloats
	kind(plan, tileRows, kn)
	for lane := 0; lane < lanes; lane += tileLanes {
		p, n := lane/tileLanes, min(tileLanes, lanes-lane)
		src.split(u, t.at(from+p, step), 0, n/tileRows, plan, &s.extremes[p])
		src = src.skip(n / tileRows * plan.next)
		if rest := n % tileRows; rest > 0 {
			kind(plan, rest, kn)
			src.split(u, t.at(from+p, step), n/tileRows, 1, plan, &s.extremes[p])
		}
	}
}

// tileBytes returns how far apart the tiles of two steps lie.
func (t *tilePack) tileBytes() int { return t.parts * partsFloats * 4 }

// along plans tiles whose rows are n lanes with k elements each.
func (p *splitPlan) along(n, k int) {
	p.phases[0] = phase(n, min(k, tileRows), k-tileRows)
	p.phases[1] = phase(tileRows-n, 0, 0)
	p.phases[2] = phase(0, 0, 0)
}

// across plans tiles of k elements, whose columns are n lanes.
func (p *splitPlan) across(n, k int) {
	both := max(k-tileRows, 0)
	even := min(k, tileRows)
	p.phases[0] = phase(both, n, n)
	p.phases[1] = phase(even-both, n, 0)
	p.phases[2] = phase(tileRows-even, 0, 0)
}

// phase has masks of the first so many elements.
func phase(rows, even, odd int) (p struct{ rows, even, odd int }) {
	p.rows, p.even, p.odd = rows, 1<<even-1, 1<<max(odd, 0)-1
	return p
}

// tileSource is where elements are read: float32, or bfloat16.
type tileSource struct {
	at           unsafe.Pointer
	half, one    bool // stored as bfloat16; made one part of, as it is rounded to that
	size, stride int  // bytes of an element, and from row to row
}

func (s tileSource) skip(bytes int) tileSource {
	s.at = unsafe.Add(s.at, bytes)
	return s
}

// split packs n tiles, for the first or the second half of a panel that starts at dst.
func (s tileSource) split(u *tileUnit, dst *byte, half, n int, plan *splitPlan, extremes *[32]uint32) {
	dst = (*byte)(unsafe.Add(unsafe.Pointer(dst), half*tileFloats*4))
	switch {
	case n == 0:
	case s.half:
		u.pair(dst, (*uint16)(s.at), n, &plan.stride, &extremes[0])
	case s.one:
		u.narrow(dst, (*float32)(s.at), n, &plan.stride, &extremes[0])
	default:
		u.split(dst, (*float32)(s.at), n, &plan.stride, &extremes[0])
	}
}

// source returns n rows of the stored matrix, from column col on, as float32 where they are to be
// turned or are neither that nor bfloat16.
func (t *tilePack) source(s *tileScratch, row, n, col, length int, turn bool) tileSource {
	x, from := t.x, row*t.x.Stride+col
	one := t.parts == 1
	switch {
	case x.float32s():
		return tileSource{unsafe.Pointer(&x.Data[from]), false, one, 4, 4 * x.Stride}
	case x.BFloat16 != nil && x.Load == nil && !turn:
		return tileSource{unsafe.Pointer(&x.BFloat16[from]), true, one, 2, 2 * x.Stride}
	}
	for r := range n {
		x.widen(s.wide[r*length:][:length], from+r*x.Stride)
	}
	return tileSource{unsafe.Pointer(&s.wide[0]), false, one, 4, 4 * length}
}

// turn transposes n rows of so many elements, into rows with room for width.
func (t *tilePack) turn(s *tileScratch, src tileSource, n, length, width int) tileSource {
	for r := 0; r < n; r += 8 {
		active.gemm.transpose(&s.turned[r], width, (*float32)(src.skip(r*src.stride).at), src.stride/4, min(8, n-r), length)
	}
	return tileSource{unsafe.Pointer(&s.turned[0]), false, src.one, 4, 4 * width}
}
