package transport

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport/proto"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/internal/wire"
)

var updatePage = flag.Bool("update-protocol",
	false, "write the generated parts of docs/protocol.md instead of comparing them")

// TestProtocolPage holds the numbers and the worked example of docs/protocol.md against
// the code that writes them.
func TestProtocolPage(t *testing.T) {
	path := filepath.Join(testdata.Root(t), "docs", "protocol.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(page)
	for name, text := range map[string]string{"numbers": numbers(t), "example": example(t)} {
		begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
		before, rest, ok1 := strings.Cut(got, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s has no part between %q and %q", path, begin, end)
		}
		got = before + begin + text + end + after
	}
	if got == string(page) {
		return
	}
	if !*updatePage {
		t.Fatalf("%s is not what the code does; run go test ./core/transport -run TestProtocolPage -update-protocol", path)
	}
	if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}

// numbers are the tables of the page.
func numbers(t *testing.T) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| storage type | number | bytes |\n|---|---|---|\n")
	for d := core.DType(1); d.Size() > 0; d++ {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", d, d, d.Size())
	}
	fmt.Fprintf(&b, "\n| status | number |\n|---|---|\n")
	for s := range int32(len(proto.Status_name)) {
		if proto.Status(s).String() != wire.Status(s).String() {
			t.Errorf("status %d is %s by RPC and %s through the doorbell", s, proto.Status(s), wire.Status(s))
		}
		fmt.Fprintf(&b, "| %s | %d |\n", wire.Status(s), s)
	}
	fmt.Fprintf(&b, "\n| size | |\n|---|---|\n| control memory | %d bytes |\n| text of an answer | at most %d bytes |\n"+
		"| call record, or text of a request | at most %d bytes |\n| tensors of a call | at most %d |\n"+
		"| site | at most %d bytes |\n| axes of a tensor | at most %d |\n",
		wire.ControlSize, wire.OffRecord-wire.OffAnswer, wire.MaxRecord, wire.MaxTensors, wire.MaxSite, wire.MaxRank)
	return b.String()
}

// dump lists fields of memory.
type dump struct {
	strings.Builder
	mem []byte
}

// field lists n bytes and what they are.
func (d *dump) field(at, n int, meaning string) {
	fmt.Fprintf(d, "%6d  %-23s  %s\n", at, fmt.Sprintf("% x", d.mem[at:at+n]), meaning)
}

// text lists a text with its length.
func (d *dump) text(length, at int) {
	n := int(wire.Order.Uint32(d.mem[length:]))
	d.field(length, 4, fmt.Sprintf("%d bytes of text", n))
	for line := range strings.Lines(string(d.mem[at : at+n])) {
		fmt.Fprintf(d, "%6d  %s\n", at, strings.TrimSuffix(line, "\n"))
		at += len(line)
	}
}

// example is a conversation with a plugin that offers swiglu, as it lies in memory.
func example(t *testing.T) string {
	mem := make([]byte, wire.ControlSize)
	w := wire.NewBells(mem)
	bell := &doorbell{Bells: w}
	d := &dump{mem: mem}
	facts := core.Facts{DType: core.Float32, Intermediate: 3, Activation: "silu", Layout: core.Separate}

	d.request(t, "1. Who are you?", bell.ask(wire.Describe, nil), "describe")
	d.answer(w, wire.Answer{Text: "name=c_swiglu\nversion=1.0.0\nkernel=swiglu\nsummary=SwiGLU in " +
		"C\ndtypes=float32\nbackward=true\n"})
	control := control{silent{bell}, func() bool { return true }}
	_, err := control.supports(context.Background(), 0, facts)
	d.request(t, "2. Do you take these facts?", expected(err), "supports")
	d.answer(w, wire.Answer{})
	_, err = control.bind(context.Background(), binding{0, core.Forward, facts})
	d.request(t, "3. Prepare the forward pass.", expected(err), "bind")
	d.answer(w, wire.Answer{Text: "handle=0\n"})
	d.call(t, bell, facts)
	d.answer(w, wire.Answer{Busy: 1500 * time.Nanosecond})
	return "```\n" + strings.TrimSuffix(d.String(), "\n") + "```\n"
}

// silent is a doorbell whose answer nobody waits for.
type silent struct{ *doorbell }

func (silent) wait(time.Duration) (answer, bool) { return answer{}, false }

// expected drops the error of a request that nobody answered.
func expected(err error) error {
	if err == nil {
		return fmt.Errorf("a request was answered")
	}
	return nil
}

// request lists a request that lies in the memory.
func (d *dump) request(t *testing.T, title string, err error, kind string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(d, "%s\n", title)
	d.field(wire.OffKind, 4, "kind: "+kind)
	d.text(wire.OffTextLength, wire.OffRecord)
	d.field(wire.OffRequest, 4, "the request's number, written last")
}

// answer writes and lists an answer to the latest request.
func (d *dump) answer(w wire.Bells, a wire.Answer) {
	w.Give(wire.Order.Uint32(d.mem[wire.OffRequest:]), a)
	fmt.Fprintf(d, "   The answer:\n")
	d.field(wire.OffStatus, 4, a.Status.String())
	d.text(wire.OffAnswerLength, wire.OffAnswer)
	if a.Busy != 0 {
		d.field(wire.OffBusy, 8, fmt.Sprintf("the kernel ran for %d ns", a.Busy))
	}
	d.field(wire.OffReply, 4, "the request's number, written last")
	fmt.Fprintln(d)
}

// call writes and lists a forward pass of one token, with what lies in the regions.
func (d *dump) call(t *testing.T, bell *doorbell, f core.Facts) {
	t.Helper()
	c, err := core.NewCall(core.SwiGLU, core.Forward, f)
	if err != nil {
		t.Fatal(err)
	}
	c.Site = "layers.0.mlp"
	c.Set("gate", core.FromFloat32([]float32{0, 1, -2}, 1, 3))
	c.Set("up", core.FromFloat32([]float32{3, 3, 0.5}, 1, 3))
	c.Set("y", core.NewTensor(core.Float32, 1, 3))
	if err := reference.Kernel(core.SwiGLU).Forward(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	c.In[0].Content = 7
	places := []struct {
		region uint32
		offset int64
		name   string
		t      core.Tensor
	}{{1, 0, "gate", c.In[0]}, {1, 64, "up", c.In[1]}, {2, 128, "y", c.Out[0]}}
	fmt.Fprintln(d, "4. Run it: gate and up lie in region 1, which the host writes, y in region 2.")
	for _, p := range places {
		fmt.Fprintf(d, "        region %d at %-4d % x  %s = %v\n", p.region, p.offset, p.t.Data, p.name, p.t.Float32s())
	}
	fmt.Fprintln(d, "        y is what the kernel is to write; the record says where:")
	rec := bell.record()
	wire.PutHeader(rec, 0, c)
	for i, p := range places {
		wire.PutEntry(wire.EntryOf(rec, i), p.region, p.offset, p.t)
	}
	bell.start(wire.Call, wire.RecordSize(len(places)))
	d.field(wire.OffKind, 4, "kind: call")
	for i, what := range []string{"handle", "inputs", "outputs", "bytes of site"} {
		d.field(wire.OffRecord+4*i, 4, what)
	}
	fmt.Fprintf(d, "%6d  %s\n", wire.OffRecord+16, c.Site)
	for i, p := range places {
		at := wire.OffRecord + wire.HeaderSize + i*wire.EntrySize
		d.field(at, 4, p.name+": region")
		d.field(at+4, 1, "storage type")
		d.field(at+5, 1, "axes")
		d.field(at+8, 8, "offset in the region")
		d.field(at+16, 8, "T")
		d.field(at+24, 8, "I")
		if i < len(c.In) {
			d.field(at+56, 8, "content")
		}
	}
	d.field(wire.OffRequest, 4, "the request's number, written last")
}
