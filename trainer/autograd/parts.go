package autograd

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/simd"
)

// partElems is how many elements a part of a gradient has at most: 8 MiB. A product of fewer rows packs its other operand
// more often.
const partElems = 2 << 20

// evenRows is what the rows of a part are a multiple of, if it has more: then products, and sums of squares, are cut where
// those of the whole gradient are.
const evenRows = 512

// mostRows is how many rows a part has at most: what packing takes of a product of so many hardly shows.
const mostRows = 2 * evenRows

// byParts is how a backward instruction's gradient is computed by parts.
type byParts struct {
	Parts
	reads func(in *instr) (read []core.Tensor, g *Grads) // what an instruction of the same inputs reads
}

// looked is what a backward instruction adds to rows of a matrix.
type looked struct {
	of         int
	rows, dout ref
	skip       int32
}

// parting is a gradient that may come by parts.
type parting struct {
	updates *Updates
	param   int
	grad    *slot
	uses    map[*slot]*use
	read    int // the last instruction that reads the parameter

	rows, columns, step int
}

// updateByParts has the gradient of a parameter computed by parts, each of which is used before the next, and returns
// whether that can be: one instruction gives all of the gradient, or all but what an instruction that comes later adds to the
// rows of a matrix that were looked up, as in a head that is the embedding. Then these rows wait, and they alone.
func (p *Program) updateByParts(g *parting, after map[int][]*instr) bool {
	u := g.uses[g.grad]
	if u == nil || len(u.readers) > 0 || !g.cut() {
		return false
	}
	in, later := p.tape[u.writer], (*instr)(nil)
	if in.looked != nil && in.looked.of == u.out && in.addsTo(u.out) {
		later, u = in, g.uses[in.over[u.out]]
		in = p.tape[u.writer]
		if len(u.readers) != 1 || g.columns%g.updates.Unit(g.param) != 0 {
			return false
		}
	}
	if in.byParts == nil || in.byParts.Of != u.out || in.addsTo(u.out) || in.pass != core.Backward || u.writer < g.read {
		return false
	}
	in.out[u.out] = ref{}
	in.work = in.work.Minus(in.byParts.Work)
	parts := p.parts(in, g)
	if later != nil {
		wait := p.wait(g, later)
		parts.out, parts.scratch = append(parts.out, refs(wait.slot)...), 2
		parts.in = append(parts.in, later.looked.rows) // behind all that the operation reads
		parts.bind = p.bindParts(in.byParts, g, wait)
		later.replaced = true
		at := g.uses[g.grad].writer
		after[at] = append(after[at], p.rest(later, g, wait))
	}
	after[u.writer] = append(after[u.writer], parts)
	return true
}

// cut decides how many rows are a part.
func (g *parting) cut() bool {
	shape := g.grad.spec.Shape
	if g.updates.Unit == nil || len(shape) < 2 {
		return false
	}
	unit, most := g.updates.Unit(g.param), g.updates.Part
	if most == 0 {
		most = partElems
	}
	g.rows = shape[0]
	g.columns = shape.Elems() / g.rows
	g.step = min(max(1, most/g.columns), mostRows)
	if g.step > evenRows {
		g.step -= g.step % evenRows
	}
	for unit > 0 && g.step > 0 && g.step*g.columns%unit != 0 {
		g.step--
	}
	return unit > 0 && g.step > 0 && g.step < g.rows
}

// parts is the instruction that computes and uses a gradient by parts, with the inputs of in.
func (p *Program) parts(in *instr, g *parting) *instr {
	part := &slot{spec: Float32(g.step * g.columns), mem: g.grad.mem}
	return &instr{op: in.op, path: in.path, pass: core.Backward, in: slices.Clone(in.in), out: refs(part), scratch: 1,
		work: in.byParts.Work, bind: p.bindParts(in.byParts, g, nil)}
}

func (p *Program) bindParts(by *byParts, g *parting, wait *waiting) func(in *instr) func(context.Context) error {
	return func(in *instr) func(context.Context) error {
		read, grads := by.reads(in)
		part := in.out[0].tensor().Float32s()
		return func(ctx context.Context) error {
			name(read, in.in)
			in.elsewhere = 0
			if wait != nil {
				wait.find()
			}
			if p.looking { // at all of these, of which not all may be written
				clear(part)
				wait.clear()
			}
			for from := 0; from < g.rows; from += g.step {
				if err := ctx.Err(); err != nil {
					return err
				}
				to := min(from+g.step, g.rows)
				dst := part[:(to-from)*g.columns]
				by.Run(grads, from, to, dst)
				if p.looking && slices.ContainsFunc(dst, nonFinite) {
					return nil // which is found there
				}
				start := clock.Now()
				if err := p.use(g, wait, from, to, dst); err != nil {
					return err
				}
				in.elsewhere += clock.Since(start)
			}
			return nil
		}
	}
}

// use hands rows [from, to) of a gradient on, but for those that wait.
func (p *Program) use(g *parting, wait *waiting, from, to int, rows []float32) error {
	first := from
	of := func(lo, hi int) []float32 { return rows[(lo-first)*g.columns : (hi-first)*g.columns] }
	hand := func(lo, hi int) error {
		if p.looking || lo == hi {
			return nil
		}
		return g.updates.Use(g.param, lo*g.columns, of(lo, hi))
	}
	if wait == nil {
		return hand(from, to)
	}
	i, _ := slices.BinarySearch(wait.rows, int32(from))
	for ; i < len(wait.rows) && int(wait.rows[i]) < to; i++ {
		row := int(wait.rows[i])
		if err := hand(from, row); err != nil {
			return err
		}
		copy(wait.row(i), of(row, row+1))
		from = row + 1
	}
	return hand(from, to)
}

// waiting are the rows of a gradient that are not complete yet.
type waiting struct {
	slot    *slot // [rows that may be, columns]
	columns int
	looked  *looked
	rows    []int32 // their numbers, in order
}

func (p *Program) wait(g *parting, later *instr) *waiting {
	most := min(later.looked.rows.slot.spec.Shape.Elems(), g.rows)
	return &waiting{slot: &slot{spec: Float32(most, g.columns), mem: g.grad.mem}, columns: g.columns, looked: later.looked,
		rows: make([]int32, 0, later.looked.rows.slot.spec.Shape.Elems())}
}

// find finds the rows that this run looked up.
func (w *waiting) find() {
	w.rows = append(w.rows[:0], w.looked.rows.tensor().Int32s()...)
	slices.Sort(w.rows)
	w.rows = slices.DeleteFunc(slices.Compact(w.rows), func(row int32) bool { return row == w.looked.skip })
}

// clear clears all rows that may be.
func (w *waiting) clear() {
	if w != nil {
		clear(w.slot.tensor.Float32s())
	}
}

// row returns the gradient of the i-th of the rows.
func (w *waiting) row(i int) []float32 { return w.slot.tensor.Float32s()[i*w.columns:][:w.columns] }

// rest is the instruction that completes the rows that wait, in the place of later, and uses them.
func (p *Program) rest(later *instr, g *parting, wait *waiting) *instr {
	sum := &slot{spec: wait.slot.spec, mem: wait.slot.mem}
	return &instr{op: later.op, path: later.path, pass: core.Backward, in: []ref{later.looked.dout, later.looked.rows},
		out: refs(sum), over: []*slot{wait.slot}, work: later.work,
		bind: func(in *instr) func(context.Context) error {
			return func(context.Context) error {
				dy, ids := in.in[0].tensor().Float32s(), in.in[1].tensor().Int32s()
				d := g.columns
				simd.Parallel(d, max(1, (1<<13)/max(len(ids), 1)), func(lo, hi int) {
					for r, id := range ids {
						if i, ok := slices.BinarySearch(wait.rows, id); ok {
							dst := wait.row(i)[lo:hi]
							simd.Add(dst, dst, dy[r*d+lo:r*d+hi])
						}
					}
				})
				start := clock.Now()
				defer func() { in.elsewhere = clock.Since(start) }()
				for i, row := range wait.rows {
					if p.looking {
						break
					}
					if err := g.updates.Use(g.param, int(row)*d, wait.row(i)); err != nil {
						return err
					}
				}
				return nil
			}
		}}
}
