package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// normFacts are facts of rms_norm, as the host writes them.
const normFacts = "dtype=float32\nweight_dtype=float32\ndim=8\ncast=after_weight\n"

// testServer is a plugin's side without a process: regions 1 (read) and 2 (write),
// handle 0 the forward of rms_norm.
func testServer(t testing.TB) *server {
	t.Helper()
	s := newServer(Offer{"test", "1", []core.Kernel{reference.Kernel(core.RMSNorm)}})
	mapTestRegion(t, s, 1, false)
	mapTestRegion(t, s, 2, true)
	if a := s.asked(wire.Bind, "kernel=0\npass=forward\n"+normFacts); a.Status != wire.OK {
		t.Fatal(a.Text)
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
	text := fmt.Sprintf("region=%d\nsize=4096\nwritable=%t\npath=%s\n", id, writable, r.Path())
	if a := s.asked(wire.Map, text); a.Status != wire.OK {
		t.Fatal(a.Text)
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
	rec := make([]byte, wire.HeaderSize+4*wire.EntrySize)
	wire.PutHeader(rec, 0, c)
	x, rstd := core.NewTensor(core.Float32, 2, 8), core.NewTensor(core.Float32, 2)
	wire.PutEntry(wire.EntryOf(rec, 0), 1, 0, x)
	wire.PutEntry(wire.EntryOf(rec, 1), 1, 64, core.NewTensor(core.Float32, 8))
	wire.PutEntry(wire.EntryOf(rec, 2), 2, 0, x)
	wire.PutEntry(wire.EntryOf(rec, 3), 2, 64, rstd)
	return rec
}

// carried is a panic with the stack of the goroutine where it was, as of core/vector.
type carried struct {
	cause any
	stack []byte
}

func (c carried) Error() string { return fmt.Sprintf("%v\n\n%s", c.cause, c.stack) }
func (c carried) Cause() any    { return c.cause }

// TestAPanicSaysWhereItWas and not where it was recovered, or raised once more.
func TestAPanicSaysWhereItWas(t *testing.T) {
	var none []int
	there := func() (c carried) {
		defer func() { c = carried{recover(), debug.Stack()} }()
		return carried{cause: none[2]}
	}
	form := regexp.MustCompile(`^panic: .* at plugin/server_test.go:\d+$`)
	lines := map[string]bool{}
	for name, f := range map[string]func() error{
		"its own":      func() error { panic("no luck") },
		"Go's":         func() error { none[1] = 1; return nil },
		"of elsewhere": func() error { panic(there()) },
	} {
		err := guard(f)
		if err == nil || !form.MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, line, _ := strings.Cut(err.Error(), ".go:")
		lines[line] = true
	}
	if len(lines) != 3 {
		t.Errorf("of three places: lines %v", lines)
	}
	if got := origin("no stack"); got != "" {
		t.Errorf("of no stack: %q", got)
	}
}

// TestServerTrustsNoRecord spoils one field of a valid record at a time.
func TestServerTrustsNoRecord(t *testing.T) {
	s := testServer(t)
	if a := s.called(context.Background(), testRecord()); a.Status != wire.OK {
		t.Fatalf("the valid record: %v %s", a.Status, a.Text)
	}
	cases := map[string]func(rec []byte){
		"unknown handle":           func(r []byte) { wire.Order.PutUint32(r, 1) },
		"too few inputs":           func(r []byte) { wire.Order.PutUint32(r[4:], 1) },
		"too many tensors":         func(r []byte) { wire.Order.PutUint32(r[8:], math.MaxUint32) },
		"long site":                func(r []byte) { wire.Order.PutUint32(r[12:], wire.MaxSite+1) },
		"unknown region":           func(r []byte) { wire.Order.PutUint32(wire.EntryOf(r, 0), 3) },
		"no region":                func(r []byte) { wire.Order.PutUint32(wire.EntryOf(r, 0), 0) },
		"offset outside":           func(r []byte) { wire.Order.PutUint64(wire.EntryOf(r, 0)[8:], 4096-63) },
		"offset that overflows":    func(r []byte) { wire.Order.PutUint64(wire.EntryOf(r, 0)[8:], math.MaxUint64) },
		"unaligned offset":         func(r []byte) { wire.Order.PutUint64(wire.EntryOf(r, 0)[8:], 2) },
		"output in host memory":    func(r []byte) { wire.Order.PutUint32(wire.EntryOf(r, 2), 1) },
		"invalid dtype":            func(r []byte) { wire.EntryOf(r, 0)[4] = 99 },
		"other dtype":              func(r []byte) { wire.EntryOf(r, 0)[4] = byte(core.Int32) },
		"too many axes":            func(r []byte) { wire.EntryOf(r, 0)[5] = 6 },
		"other shape":              func(r []byte) { wire.Order.PutUint64(wire.EntryOf(r, 0)[16:], 3) },
		"negative axis":            func(r []byte) { wire.Order.PutUint64(wire.EntryOf(r, 0)[16:], math.MaxUint64) },
		"size that overflows":      func(r []byte) { wire.Order.PutUint64(wire.EntryOf(r, 0)[16:], 1<<61) },
		"tokens that do not agree": func(r []byte) { wire.Order.PutUint64(wire.EntryOf(r, 3)[16:], 1) },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			rec := testRecord()
			spoil(rec)
			if a := s.called(context.Background(), rec); a.Status != wire.BadCall {
				t.Errorf("%v %s", a.Status, a.Text)
			}
		})
	}
}

// told is a host that is told how many calls are done, and stops the series after three.
type told []int

func (p *told) SetDone(n int)   { *p = append(*p, n) }
func (p *told) IsStopped() bool { return len(*p) == 3 }

// TestSeries runs the records up to one that is spoiled, and says each time how many are done.
func TestSeries(t *testing.T) {
	spoiled := testRecord()
	wire.Order.PutUint32(spoiled, 1) // an unknown handle
	endless := testRecord()
	wire.Order.PutUint32(endless[4:], math.MaxUint32)
	for name, tt := range map[string]struct {
		records [][]byte
		done    int
		status  wire.Status
	}{
		"none":              {nil, 0, wire.OK},
		"three":             {[][]byte{testRecord(), testRecord(), testRecord()}, 3, wire.OK},
		"the second fails":  {[][]byte{testRecord(), spoiled, testRecord()}, 1, wire.BadCall},
		"the last is cut":   {[][]byte{testRecord(), testRecord()[:wire.HeaderSize+7]}, 1, wire.BadCall},
		"it says too much":  {[][]byte{testRecord(), endless}, 1, wire.BadCall},
		"a few bytes alone": {[][]byte{{1, 2, 3}}, 0, wire.BadCall},
		"it is stopped":     {slices.Repeat([][]byte{testRecord()}, 5), 3, wire.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			var told told
			a := testServer(t).series(t.Context(), slices.Concat(tt.records...), &told)
			if a.Status != tt.status || len(told) != tt.done || tt.done > 0 && told[tt.done-1] != tt.done {
				t.Errorf("%v %q, told %v, want %v and %d", a.Status, a.Text, told, tt.status, tt.done)
			}
			if tt.status == wire.OK && len(a.Text) != 8*tt.done {
				t.Errorf("the times of %d calls have %d bytes", tt.done, len(a.Text))
			}
			if (a.Busy > 0) != (tt.done > 0) {
				t.Errorf("%d calls took %v", tt.done, a.Busy)
			}
		})
	}
}

// TestSeveralPluginsInOneProcess are asked for by name, and their kernels are numbered in order.
func TestSeveralPluginsInOneProcess(t *testing.T) {
	s := newServer(Offer{"norms", "1", []core.Kernel{reference.Kernel(core.RMSNorm), reference.Kernel(core.AddRMSNorm)}},
		Offer{"ropes", "2", []core.Kernel{reference.Kernel(core.RoPE)}})
	for text, begins := range map[string]string{
		"":                "name=norms\nversion=1\nkernel=rms_norm\n",
		"plugin=norms\n":  "name=norms\nversion=1\nkernel=rms_norm\n",
		"plugin=ropes\n":  "name=ropes\nversion=2\nkernel=rope\n",
		"plugin=breads\n": "",
	} {
		a := s.asked(wire.Describe, text)
		if (a.Status == wire.OK) != (begins != "") || begins != "" && !strings.HasPrefix(a.Text, begins) {
			t.Errorf("%q: %v %q", text, a.Status, a.Text)
		}
	}
	const facts = "pass=forward\ndtype=float32\n"
	if a := s.asked(wire.Bind, "kernel=2\n"+facts); strings.Contains(a.Text, "there are 3") {
		t.Error(a.Text)
	}
	if a := s.asked(wire.Bind, "kernel=3\n"+facts); a.Status != wire.BadCall {
		t.Errorf("%v %q", a.Status, a.Text)
	}
}

// described is a kernel that says something else of itself.
type described struct {
	core.Kernel
	info core.Info
}

func (d described) Info() core.Info { return d.info }

// TestADescriptionHasWhatAKernelSays, and of what is younger than the protocol nothing that does not apply.
func TestADescriptionHasWhatAKernelSays(t *testing.T) {
	for want, info := range map[string]core.Info{
		"kernel=rope\nsummary=\nbackward=false\n": {Op: core.RoPE},
		"kernel=linear\nsummary=two\nsummary=lines\nbackward=true\ndtypes=float32,bfloat16\nadds=dw,db\nadds_tokens=7\n" +
			"by_threads=true\nkeeps=true\n": {Op: core.Linear, Summary: "two\nlines", Backward: true, ByThreads: true,
			Keeps: true, DTypes: []core.DType{core.Float32, core.BFloat16}, Adds: []string{"dw", "db"}, AddsTokens: 7},
	} {
		s := newServer(Offer{"test", "1", []core.Kernel{described{info: info}}})
		if a := s.asked(wire.Describe, ""); a.Text != "name=test\nversion=1\n"+want {
			t.Errorf("%v %q, want %q", a.Status, a.Text, want)
		}
	}
}

// TestContentsAreNamedWhereTheHostSaysSo: a host that does not know of them may leave anything there.
func TestContentsAreNamedWhereTheHostSaysSo(t *testing.T) {
	for _, named := range []bool{false, true} {
		if named {
			t.Setenv(wire.EnvKeep, "0")
		}
		s, rec := testServer(t), testRecord()
		for i, content := range []uint64{1 << 50, 0, 5, 6} {
			wire.Order.PutUint64(wire.EntryOf(rec, i)[56:], content)
		}
		if a := s.called(context.Background(), rec); a.Status != wire.OK {
			t.Fatal(a.Text)
		}
		c, want := s.bound[0].call, uint64(0)
		if named {
			want = 1 << 50
		}
		if c.In[0].Content != want || c.In[1].Content != 0 || c.Out[0].Content != 0 || c.Out[1].Content != 0 {
			t.Errorf("named %v: contents %d and %d, of outputs %d and %d", named, c.In[0].Content, c.In[1].Content,
				c.Out[0].Content, c.Out[1].Content)
		}
	}
}

func TestAnUnmappedRegionCannotBeNamed(t *testing.T) {
	s, ctx := testServer(t), context.Background()
	if a := s.called(ctx, testRecord()); a.Status != wire.OK {
		t.Fatalf("before: %v %s", a.Status, a.Text)
	}
	view := s.regions[1].view
	if a := s.asked(wire.Unmap, "region=1\n"); a.Status != wire.OK {
		t.Fatal(a.Text)
	}
	if view.Bytes() != nil {
		t.Error("the region is still mapped")
	}
	for _, x := range append(s.bound[0].call.In, s.bound[0].call.Out...) {
		if x.Data != nil {
			t.Error("a tensor of the latest call still points at memory that may be unmapped")
		}
	}
	if a := s.called(ctx, testRecord()); a.Status != wire.BadCall || !strings.Contains(a.Text, "region 1") {
		t.Errorf("a call afterwards: %v %s", a.Status, a.Text)
	}
	if a := s.asked(wire.Unmap, "region=1\n"); a.Status == wire.OK {
		t.Error("it was unmapped twice")
	}
	mapTestRegion(t, s, 1, false)
	if a := s.called(ctx, testRecord()); a.Status != wire.OK {
		t.Errorf("after mapping it again: %v %s", a.Status, a.Text)
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
		if a := wire.Outcome(fmt.Errorf("%w: cut \xc3", cause)); a.Text != cause.Error()+": cut ?" {
			t.Errorf("the host hears %q of %v", a.Text, cause)
		}
	}
}

func TestServerRefusesRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		kind wire.Kind
		text string
		want wire.Status
	}{
		"facts that are known":   {wire.Supports, "kernel=0\n" + normFacts, wire.OK},
		"an unknown kernel":      {wire.Supports, "kernel=5\n" + normFacts, wire.BadCall},
		"bind an unknown kernel": {wire.Bind, "kernel=5\npass=forward\n" + normFacts, wire.BadCall},
		"a kernel that is none":  {wire.Bind, "kernel=-1\n", wire.Failed},
		"a fact of a later host": {wire.Supports, "kernel=0\n" + normFacts + "colour=red\n", wire.NotSupported},
		"bind a fact of a later host": {wire.Bind, "kernel=0\npass=forward\n" + normFacts + "colour=red\n",
			wire.NotSupported},
		"a number where none goes": {wire.Supports, "kernel=0\ndtype=float32\nlayout=3\n", wire.NotSupported},
		"facts without a dim":      {wire.Bind, "kernel=0\npass=forward\ndtype=float32\n", wire.Failed},
		"a missing file": {wire.Map, "region=9\nsize=10\nwritable=true\npath=" + t.TempDir() + "/absent\n",
			wire.Failed},
		"a region that is none":  {wire.Map, "size=10\nwritable=true\n", wire.Failed},
		"nothing to unmap":       {wire.Unmap, "size=10\n", wire.Failed},
		"a size that is none":    {wire.Map, "region=9\nsize=all\n", wire.Failed},
		"a kind of a later host": {77, "", wire.Failed},
	} {
		if a := testServer(t).asked(tt.kind, tt.text); a.Status != tt.want || (a.Text == "") != (tt.want == wire.OK) {
			t.Errorf("%s: %v %q; want %v", name, a.Status, a.Text, tt.want)
		}
	}
}

func TestEachPassIsBoundForItsFacts(t *testing.T) {
	s := newServer(Offer{"two", "1", []core.Kernel{reference.Kernel(core.RoPE), reference.Kernel(core.RMSNorm)}})
	if a := s.asked(wire.Supports, "kernel=0\n"+normFacts); a.Status != wire.NotSupported {
		t.Errorf("facts of another op: %+v", a)
	}
	for want, pass := range []core.Pass{core.Forward, core.Backward} {
		a := s.asked(wire.Bind, fmt.Sprintf("kernel=1\npass=%s\n%s", pass, normFacts))
		if a.Text != fmt.Sprintf("handle=%d\n",
			want) || s.bound[want].call.Pass != pass || s.bound[want].call.Facts.Dim != 8 {
			t.Errorf("bind %s: %+v", pass, a)
		}
	}
}

// TestADescriptionThatIsTooLongIsNotCut: half a description would be believed.
func TestADescriptionThatIsTooLongIsNotCut(t *testing.T) {
	s := newServer(Offer{"many", "1", slices.Repeat([]core.Kernel{reference.Kernel(core.RMSNorm)}, 100)})
	if a := s.asked(wire.Describe, ""); a.Status != wire.Failed || !strings.Contains(a.Text, "at most 3824") {
		t.Errorf("%v %q", a.Status, a.Text)
	}
}
