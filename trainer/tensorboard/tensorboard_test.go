package tensorboard

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed98097648/tune/trainer/journal"
)

// event is what the reader of this test finds in a record.
type event struct {
	Time    float64
	Step    int
	Version string
	Start   bool // of a session
	Scalars map[string]float32
}

// read decodes an event file without the code that has written it.
func read(t *testing.T, file []byte) []event {
	t.Helper()
	var all []event
	for len(file) > 0 {
		n := binary.LittleEndian.Uint64(file)
		if got, want := binary.LittleEndian.Uint32(file[8:]), masked(file[:8]); got != want {
			t.Fatalf("record %d: checksum of the length is %08x, want %08x", len(all), got, want)
		}
		data := file[12 : 12+n]
		if got, want := binary.LittleEndian.Uint32(file[12+n:]), masked(data); got != want {
			t.Fatalf("record %d: checksum of the data is %08x, want %08x", len(all), got, want)
		}
		all = append(all, decode(t, data))
		file = file[16+n:]
	}
	return all
}

// masked is the checksum as its definition has it, bit by bit.
func masked(data []byte) uint32 {
	crc := ^uint32(0)
	for _, b := range data {
		crc ^= uint32(b)
		for range 8 {
			low := crc & 1
			crc >>= 1
			if low == 1 {
				crc ^= 0x82f63b78
			}
		}
	}
	crc = ^crc
	return (crc>>15 | crc<<17) + 0xa282ead8
}

func decode(t *testing.T, data []byte) event {
	t.Helper()
	e := event{}
	fields(t, data, func(field protowire.Number, v []byte, n uint64) {
		switch field {
		case 1:
			e.Time = math.Float64frombits(n)
		case 2:
			e.Step = int(n)
		case 3:
			e.Version = string(v)
		case 5:
			e.Scalars = map[string]float32{}
			fields(t, v, func(_ protowire.Number, value []byte, _ uint64) {
				var tag string
				fields(t, value, func(field protowire.Number, v []byte, n uint64) {
					if field == 1 {
						tag = string(v)
					} else {
						e.Scalars[tag] = math.Float32frombits(uint32(n))
					}
				})
			})
		case 7:
			fields(t, v, func(_ protowire.Number, _ []byte, n uint64) { e.Start = n == 1 })
		default:
			t.Errorf("field %d", field)
		}
	})
	return e
}

// fields walks over a message with the protobuf module's own reader.
func fields(t *testing.T, b []byte, visit func(field protowire.Number, bytes []byte, number uint64)) {
	t.Helper()
	for len(b) > 0 {
		field, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		var v []byte
		var number uint64
		switch wire {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			number = uint64(v)
		case protowire.BytesType:
			v, n = protowire.ConsumeBytes(b)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		visit(field, v, number)
		b = b[n:]
	}
}

func write(t *testing.T, dir string, at time.Time, events ...journal.Event) []byte {
	t.Helper()
	w, err := New(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if err := w.Record(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(w.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTheFirstBytes: every event file begins with the same ones, but for the time.
func TestTheFirstBytes(t *testing.T) {
	got := write(t, t.TempDir(), time.Unix(1, 500_000_000))
	want, err := hex.DecodeString("1800000000000000" + "a37f4b22" + "09000000000000f83f" + "1a0d")
	if err != nil {
		t.Fatal(err)
	}
	if want = append(want, "brain.Event:2"...); !bytes.HasPrefix(got, want) || len(got) != len(want)+4 {
		t.Errorf("the file begins with\n%x, want\n%x", got, want)
	}
}

// TestChecksumOfKnownData uses the check value of CRC-32C, e3069283.
func TestChecksumOfKnownData(t *testing.T) {
	sum := uint32(0xe3069283)
	if got, want := checksum([]byte("123456789")), (sum>>15|sum<<17)+0xa282ead8; got != want {
		t.Errorf("%08x, want %08x", got, want)
	}
}

func TestEveryFigureComesBack(t *testing.T) {
	at := time.Unix(1_700_000_000, 250_000_000)
	got := read(t, write(t, t.TempDir(), at, &journal.Start{Time: at},
		&journal.Eval{Time: at, Step: 0, Loss: 9},
		&journal.Step{Time: at, Step: 1, Loss: 2.5, LR: 1e-4, GradNorm: 0.75, Tokens: 100, Seconds: 0.5},
		&journal.Warning{Time: at, Step: 1},
		&journal.Eval{Time: at, Step: 300, Loss: 2.25}, &journal.End{Time: at}))
	want := []event{
		{Time: 1_700_000_000.25, Version: "brain.Event:2"},
		{Time: 1_700_000_000.25, Scalars: map[string]float32{"eval/loss": 9}},
		{Time: 1_700_000_000.25, Step: 1, Scalars: map[string]float32{"train/loss": 2.5, "train/learning_rate": 1e-4,
			"train/grad_norm": 0.75, "train/tokens_per_second": 200}},
		{Time: 1_700_000_000.25, Step: 300, Scalars: map[string]float32{"eval/loss": 2.25}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAResumedRunHasAFileOfItsOwn, which says from which step on it counts.
func TestAResumedRunHasAFileOfItsOwn(t *testing.T) {
	dir, at := filepath.Join(t.TempDir(), "a", "b"), time.Unix(1_700_000_000, 0)
	write(t, dir, at, &journal.Start{Time: at})
	got := read(t, write(t, dir, at.Add(1), &journal.Start{Time: at, Resumed: 6}, &journal.Step{Time: at, Step: 7}))
	if len(got) != 3 || !got[1].Start || got[1].Step != 7 || got[2].Step != 7 {
		t.Errorf("%+v", got)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 || !strings.Contains(files[0].Name(), "tfevents") {
		t.Errorf("files %v, %v", files, err)
	}
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(filepath.Join(file, "runs"), time.Now()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}
