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
