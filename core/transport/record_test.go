package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/shm"
)

func TestEntryRoundTrip(t *testing.T) {
	tensors := []core.Tensor{
		core.NewTensor(core.Float32),
		core.NewTensor(core.BFloat16, 3, 5),
		core.NewTensor(core.Int32, 0, 7),
		core.NewTensor(core.Float64, 1, 2, 3, 1, 2, 3),
	}
	for _, want := range tensors {
		e := make([]byte, entrySize)
		putEntry(e, 7, 1<<40, want)
		region, offset, n, dtype, shape, err := readEntry(e, core.Shape{})
		if err != nil || region != 7 || offset != 1<<40 || n != uint64(len(want.Data)) || dtype != want.DType {
			t.Errorf("%v: region %d offset %d bytes %d dtype %v: %v", want.Shape, region, offset, n, dtype, err)
		}
		if !shape.Equal(want.Shape) {
			t.Errorf("shape %v, want %v", shape, want.Shape)
		}
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	c := &core.Call{In: make([]core.Tensor, 3), Out: make([]core.Tensor, 2)}
	for _, site := range []string{"", "layers.3.mlp", string(make([]byte, maxSite+50))} {
		c.Site = site
		rec := make([]byte, headerSize+5*entrySize)
		putHeader(rec, 9, c)
		h, err := readHeader(rec)
		if err != nil {
			t.Fatal(err)
		}
		want := header{handle: 9, inputs: 3, outputs: 2, site: []byte(site[:min(len(site), maxSite)]), recordBytes: len(rec)}
		if d := cmp.Diff(want, h, cmp.AllowUnexported(header{})); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if _, err := readHeader(rec[:len(rec)-1]); !errors.Is(err, core.ErrBadCall) {
			t.Errorf("a cut record: %v", err)
		}
	}
}

// testServer is a plugin's side without a process: regions 1 (read) and 2 (write),
// handle 0 the forward of rms_norm.
func testServer(t testing.TB) *server {
	t.Helper()
	s := newServer("test", "1", []core.Kernel{reference.Kernel(core.RMSNorm)})
	mapTestRegion(t, s, 1, false)
	mapTestRegion(t, s, 2, true)
	_, err := s.Bind(context.Background(), &proto.BindRequest{Facts: []byte(
		`{"dtype":"float32","weight_dtype":"float32","dim":8,"cast":"after_weight"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mapTestRegion has the server map a new region of 4096 bytes.
func mapTestRegion(t testing.TB, s *server, id uint32, writable bool) {
	t.Helper()
	r, err := shm.NewFile("test", 4096, shm.Shared)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.MapRegion(context.Background(), &proto.MapRegionRequest{Region: id, Size: 4096, Path: r.Path(), Writable: writable})
	if err != nil {
		t.Fatal(err)
	}
	view := s.regions[id].view
	t.Cleanup(func() {
		if err := errors.Join(view.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
}

// testRecord is a valid record for testServer.
func testRecord() []byte {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, Cast: core.CastAfterWeight}
	c, err := core.NewCall(core.RMSNorm, core.Forward, f)
	if err != nil {
		panic(err)
	}
	rec := make([]byte, headerSize+4*entrySize)
	putHeader(rec, 0, c)
	x, rstd := core.NewTensor(core.Float32, 2, 8), core.NewTensor(core.Float32, 2)
	putEntry(entry(rec, 0), 1, 0, x)
	putEntry(entry(rec, 1), 1, 64, core.NewTensor(core.Float32, 8))
	putEntry(entry(rec, 2), 2, 0, x)
	putEntry(entry(rec, 3), 2, 64, rstd)
	return rec
}

// TestServerTrustsNoRecord spoils one field of a valid record at a time.
func TestServerTrustsNoRecord(t *testing.T) {
	s := testServer(t)
	if a := s.answer(context.Background(), testRecord()); a.status != proto.Status_STATUS_OK {
		t.Fatalf("the valid record: %v %s", a.status, a.text)
	}
	cases := map[string]func(rec []byte){
		"unknown handle":           func(r []byte) { order.PutUint32(r, 1) },
		"too few inputs":           func(r []byte) { order.PutUint32(r[4:], 1) },
		"too many tensors":         func(r []byte) { order.PutUint32(r[8:], math.MaxUint32) },
		"long site":                func(r []byte) { order.PutUint32(r[12:], maxSite+1) },
		"unknown region":           func(r []byte) { order.PutUint32(entry(r, 0), 3) },
		"no region":                func(r []byte) { order.PutUint32(entry(r, 0), 0) },
		"offset outside":           func(r []byte) { order.PutUint64(entry(r, 0)[8:], 4096-63) },
		"offset that overflows":    func(r []byte) { order.PutUint64(entry(r, 0)[8:], math.MaxUint64) },
		"unaligned offset":         func(r []byte) { order.PutUint64(entry(r, 0)[8:], 2) },
		"output in host memory":    func(r []byte) { order.PutUint32(entry(r, 2), 1) },
		"invalid dtype":            func(r []byte) { entry(r, 0)[4] = 99 },
		"other dtype":              func(r []byte) { entry(r, 0)[4] = byte(core.Int32) },
		"too many axes":            func(r []byte) { entry(r, 0)[5] = 7 },
		"other shape":              func(r []byte) { order.PutUint64(entry(r, 0)[16:], 3) },
		"negative axis":            func(r []byte) { order.PutUint64(entry(r, 0)[16:], math.MaxUint64) },
		"size that overflows":      func(r []byte) { order.PutUint64(entry(r, 0)[16:], 1<<61) },
		"tokens that do not agree": func(r []byte) { order.PutUint64(entry(r, 3)[16:], 1) },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			rec := testRecord()
			spoil(rec)
			if a := s.answer(context.Background(), rec); a.status != proto.Status_STATUS_BAD_CALL {
				t.Errorf("%v %s", a.status, a.text)
			}
		})
	}
}

func TestAnUnmappedRegionCannotBeNamed(t *testing.T) {
	s, ctx := testServer(t), context.Background()
	if a := s.answer(ctx, testRecord()); a.status != proto.Status_STATUS_OK {
		t.Fatalf("before: %v %s", a.status, a.text)
	}
	view := s.regions[1].view
	if _, err := s.UnmapRegion(ctx, &proto.UnmapRegionRequest{Region: 1}); err != nil {
		t.Fatal(err)
	}
	if view.Bytes() != nil {
		t.Error("the region is still mapped")
	}
	for _, x := range append(s.bound[0].call.In, s.bound[0].call.Out...) {
		if x.Data != nil {
			t.Error("a tensor of the latest call still points at memory that may be unmapped")
		}
	}
	if a := s.answer(ctx, testRecord()); a.status != proto.Status_STATUS_BAD_CALL || !strings.Contains(a.text, "region 1") {
		t.Errorf("a call afterwards: %v %s", a.status, a.text)
	}
	if _, err := s.UnmapRegion(ctx, &proto.UnmapRegionRequest{Region: 1}); err == nil {
		t.Error("it was unmapped twice")
	}
	mapTestRegion(t, s, 1, false)
	if a := s.answer(ctx, testRecord()); a.status != proto.Status_STATUS_OK {
		t.Errorf("after mapping it again: %v %s", a.status, a.text)
	}
}

func FuzzRebuild(f *testing.F) {
	f.Add(testRecord())
	f.Add([]byte{})
	s := testServer(f)
	f.Fuzz(func(t *testing.T, rec []byte) {
		b, err := s.rebuild(rec)
		if err != nil {
			return
		}
		if err := b.call.Check(); err != nil {
			t.Errorf("a call was rebuilt that is not valid: %v", err)
		}
	})
}

// TestErrorsOfAnyBytesReachTheHost: gRPC itself fails on texts that are not UTF-8.
func TestErrorsOfAnyBytesReachTheHost(t *testing.T) {
	for _, cause := range []error{core.ErrNotSupported, core.ErrBadCall, errors.New("failed")} {
		if _, text := outcome(fmt.Errorf("%w: cut \xc3", cause)); text != cause.Error()+": cut ?" {
			t.Errorf("the host hears %q of %v", text, cause)
		}
	}
}

func TestServerRefusesRequests(t *testing.T) {
	s, ctx := testServer(t), context.Background()
	facts := []byte(`{"dtype":"float32"}`)
	for name, tt := range map[string]struct {
		r    *proto.SupportsRequest
		want proto.Status
	}{
		"facts that are known": {&proto.SupportsRequest{Facts: []byte(
			`{"dtype":"float32","weight_dtype":"float32","dim":8,"cast":"after_weight"}`)}, proto.Status_STATUS_OK},
		"an unknown kernel":      {&proto.SupportsRequest{Kernel: 5, Facts: facts}, proto.Status_STATUS_BAD_CALL},
		"facts that are no JSON": {&proto.SupportsRequest{Facts: []byte("{")}, proto.Status_STATUS_NOT_SUPPORTED},
		"a fact of a later host": {&proto.SupportsRequest{Facts: []byte(
			`{"dtype":"float32","weight_dtype":"float32","dim":8,"cast":"after_weight","colour":"red"}`)}, proto.Status_STATUS_NOT_SUPPORTED},
		"a number where none goes": {&proto.SupportsRequest{Facts: []byte(`{"dtype":"float32","layout":3}`)}, proto.Status_STATUS_NOT_SUPPORTED},
	} {
		r, err := s.Supports(ctx, tt.r)
		if err != nil || r.GetStatus() != tt.want || (r.GetReason() == "") != (tt.want == proto.Status_STATUS_OK) {
			t.Errorf("Supports of %s: %v %q, %v; want %v", name, r.GetStatus(), r.GetReason(), err, tt.want)
		}
	}
	if _, err := s.Bind(ctx, &proto.BindRequest{Facts: facts}); err == nil {
		t.Error("Bind of facts without a dim")
	}
	if _, err := s.MapRegion(ctx, &proto.MapRegionRequest{Region: 9, Size: 10, Path: t.TempDir() + "/absent"}); err == nil {
		t.Error("MapRegion of a missing file")
	}
}
