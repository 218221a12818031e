package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/core"
)

func TestEntryRoundTrip(t *testing.T) {
	tensors := []core.Tensor{
		core.NewTensor(core.Float32),
		core.NewTensor(core.BFloat16, 3, 5),
		core.NewTensor(core.Int32, 0, 7),
		core.NewTensor(core.Float64, 1, 2, 3, 1, 2),
		core.NewTensor(core.NF4, 3, 5),
	}
	for _, want := range tensors {
		e := bytes.Repeat([]byte{0xff}, EntrySize) // what an earlier call has left there
		want.Content = uint64(len(want.Data)) << 40
		PutEntry(e, 7, 1<<40, want)
		got, err := ReadEntry(e, core.Shape{})
		if err != nil || got.Region != 7 || got.Offset != 1<<40 || got.Bytes != uint64(len(want.Data)) ||
			got.DType != want.DType {
			t.Errorf("%v: %+v: %v", want.Shape, got, err)
		}
		if n := ContentOf(e); n != want.Content {
			t.Errorf("%v: content %d, want %d", want.Shape, n, want.Content)
		}
		if !got.Shape.Equal(want.Shape) {
			t.Errorf("shape %v, want %v", got.Shape, want.Shape)
		}
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	c := &core.Call{In: make([]core.Tensor, 3), Out: make([]core.Tensor, 2)}
	for _, site := range []string{"", "layers.3.mlp", string(make([]byte, MaxSite+50))} {
		c.Site = site
		rec := make([]byte, RecordSize(5))
		PutHeader(rec, 9, c)
		h, err := ReadHeader(rec)
		if err != nil {
			t.Fatal(err)
		}
		want := Header{Handle: 9, Inputs: 3, Outputs: 2, Site: []byte(site[:min(len(site), MaxSite)])}
		if d := cmp.Diff(want, h); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if _, err := ReadHeader(rec[:len(rec)-1]); !errors.Is(err, core.ErrBadCall) {
			t.Errorf("a cut record: %v", err)
		}
	}
}

// TestRecordsThatCannotBeAreRefused: the other side can write anything, at any time.
func TestRecordsThatCannotBeAreRefused(t *testing.T) {
	for name, counts := range map[string][3]uint32{ // inputs, outputs, bytes of the site
		"inputs":            {MaxTensors + 1, 0, 0},
		"outputs":           {0, MaxTensors + 1, 0},
		"tensors":           {MaxTensors, 1, 0},
		"tensors, that add": {1 << 31, 1 << 31, 0},
		"inputs, that add":  {1<<32 - 1, 1, 0},
		"outputs, that add": {1, 1<<32 - 1, 0},
		"a site":            {0, 0, MaxSite + 1},
		"a site, that adds": {0, 0, 1<<32 - 1},
	} {
		rec := make([]byte, MaxRecord+2*EntrySize)
		for i, n := range counts {
			Order.PutUint32(rec[4+4*i:], n)
		}
		if h, err := ReadHeader(rec); !errors.Is(err, core.ErrBadCall) {
			t.Errorf("%s: %d and %d tensors, %d bytes, %v", name, h.Inputs, h.Outputs, len(h.Site), err)
		}
	}
	if _, err := ReadHeader(make([]byte, 15)); !errors.Is(err, core.ErrBadCall) {
		t.Errorf("a part of a header: %v", err)
	}
	for name, edit := range map[string]func(e []byte){
		"no dtype":                 func(e []byte) { e[4] = 0 },
		"a dtype of later times":   func(e []byte) { e[4] = 255 },
		"too many axes":            func(e []byte) { e[5] = MaxRank + 1 },
		"a negative axis":          func(e []byte) { Order.PutUint64(e[16:], 1<<64-1) },
		"a large axis beside none": func(e []byte) { Order.PutUint64(e[16:], 0); Order.PutUint64(e[24:], maxBytes+1) },
		"axes that multiply to 0":  func(e []byte) { Order.PutUint64(e[16:], 1<<32); Order.PutUint64(e[24:], 1<<32) },
	} {
		e := make([]byte, EntrySize)
		PutEntry(e, 1, 0, core.NewTensor(core.Float32, 2, 3))
		edit(e)
		if x, err := ReadEntry(e, nil); !errors.Is(err, core.ErrBadCall) {
			t.Errorf("%s: %+v, %v", name, x, err)
		}
	}
}
