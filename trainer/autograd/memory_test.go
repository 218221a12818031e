package autograd

import (
	"errors"
	"testing"

	"github.com/seed98097648/tune/core"
)

// counted is memory that says how many blocks of it are not given back, and has so many at most.
type counted struct {
	Heap
	held, most int
}

func (m *counted) Alloc(n int) ([]byte, error) {
	if m.held == m.most {
		return nil, errNoMore
	}
	m.held++
	return m.Heap.Alloc(n)
}

func (m *counted) Free([]byte) { m.held-- }

var errNoMore = errors.New("no more")

// TestMemoryIsGivenBack: a graph has a table in its memory, an operation its outputs in another one, of which there may
// be none.
func TestMemoryIsGivenBack(t *testing.T) {
	for name, tt := range map[string]struct {
		others int // blocks of the other memory
		end    func(g *Graph, loss, x *Value) error
		err    error
	}{
		"released": {1, func(g *Graph, _, _ *Value) error { g.Release(); return nil }, nil},
		"sized":    {1, func(g *Graph, loss, x *Value) error { _, err := g.Size(loss, x); return err }, nil},
		"closed": {1, func(g *Graph, loss, x *Value) error {
			p, err := g.Compile(loss, x)
			if err == nil {
				run(t, p)
				p.Close()
			}
			return err
		}, nil},
		"not compiled": {0, func(g *Graph, loss, x *Value) error { _, err := g.Compile(loss, x); return err }, errNoMore},
		"not sized": {1, func(g *Graph, loss, x *Value) error {
			g.fail(errNoMore)
			_, err := g.Size(loss, x)
			return err
		}, errNoMore},
	} {
		mem, others := &counted{most: 9}, &counted{most: tt.others}
		g := New(mem)
		table, err := g.Alloc(4 * 5)
		if err != nil {
			t.Fatal(err)
		}
		x := g.Param("x", core.NewTensor(core.Float32, 5))
		op := mul(5)
		op.Memory = others
		y := g.Apply(op, x, g.Input("table", core.Tensor{DType: core.Float32, Shape: core.Shape{5}, Data: table}))
		if err := tt.end(g, g.Apply(total(), y), x); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", name, err)
		}
		if mem.held != 0 || others.held != 0 {
			t.Errorf("%s: %d and %d blocks are not given back", name, mem.held, others.held)
		}
	}
}
