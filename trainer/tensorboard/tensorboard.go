// Package tensorboard writes the figures of a training run as an event file, which
// TensorBoard shows.
//
// An event file is a sequence of records: the length of the data in 8 bytes, little-endian,
// a checksum of these, the data, and a checksum of that. A checksum is CRC-32C, rotated by
// 15 bits and moved by a constant, so that data which holds checksums has a useful one. The
// data is an Event, a protocol buffer:
//
//	message Event {
//	  double wall_time = 1;       // seconds since 1970
//	  int64 step = 2;
//	  string file_version = 3;    // of the first event
//	  Summary summary = 5;
//	  SessionLog session_log = 7;
//	}
//	message Summary { repeated Value value = 1; }
//	message Value { string tag = 1; float simple_value = 2; }
//	message SessionLog { SessionStatus status = 1; } // START = 1
package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/seed98097648/tune/trainer/journal"
)

// The tags of the scalars. TensorBoard groups them by what is before the slash.
const (
	TagLoss     = "train/loss"
	TagLR       = "train/learning_rate"
	TagGradNorm = "train/grad_norm"
	TagRate     = "train/tokens_per_second"
	TagEval     = "eval/loss"
)

// Writer writes an event file. As a sink it takes steps and evaluations from a run.
type Writer struct {
	file          *os.File
	record, event []byte // reused
}

var _ journal.Sink = (*Writer)(nil)

// New starts an event file in a folder, which is made if need be. A run that goes on has a
// file of its own beside that of its beginning. The caller closes the writer.
func New(dir string, now time.Time) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	// TensorBoard takes files with "tfevents" in their names, in the order of these.
	name := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%09d.tune", now.Unix(), now.Nanosecond()))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	w := &Writer{file: f}
	w.begin(now, 0)
	w.event = appendString(w.event, 3, "brain.Event:2")
	return w, w.write()
}

// Record implements journal.Sink.
func (w *Writer) Record(e journal.Event) error {
	switch e := e.(type) {
	case *journal.Start:
		return w.start(e)
	case *journal.Step:
		w.begin(e.Time, e.Step)
		s := appendValue(appendValue(nil, TagLoss, e.Loss), TagLR, e.LR)
		s = appendValue(appendValue(s, TagGradNorm, e.GradNorm), TagRate, e.Rate())
		w.event = appendBytes(w.event, 5, s)
		return w.write()
	case *journal.Eval:
		w.begin(e.Time, e.Step)
		w.event = appendBytes(w.event, 5, appendValue(nil, TagEval, e.Loss))
		return w.write()
	}
	return nil
}

// start says at which step the file begins: TensorBoard drops what an earlier one has from
// there on, which the run does again.
func (w *Writer) start(s *journal.Start) error {
	if s.Resumed == 0 {
		return nil
	}
	w.begin(s.Time, s.Resumed+1)
	w.event = appendBytes(w.event, 7, appendVarint(nil, 1, 1))
	return w.write()
}

// Close brings the file to the disk.
func (w *Writer) Close() error {
	err := w.file.Sync()
	if closed := w.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}

// begin starts an event.
func (w *Writer) begin(at time.Time, step int) {
	w.event = appendDouble(w.event[:0], 1, float64(at.UnixMicro())/1e6)
	if step != 0 {
		w.event = appendVarint(w.event, 2, uint64(step))
	}
}

// write adds the event to the file.
func (w *Writer) write() error {
	w.record = appendRecord(w.record[:0], w.event)
	if _, err := w.file.Write(w.record); err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}

func appendRecord(b, data []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, checksum(b[len(b)-8:]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, checksum(data))
}

func checksum(data []byte) uint32 {
	const delta = 0xa282ead8
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (sum>>15 | sum<<17) + delta
}

// The wire types of protocol buffers.
const (
	varint  = 0
	fixed64 = 1
	lengths = 2
	fixed32 = 5
)

func appendKey(b []byte, field, wire uint64) []byte { return binary.AppendUvarint(b, field<<3|wire) }

func appendVarint(b []byte, field, v uint64) []byte {
	return binary.AppendUvarint(appendKey(b, field, varint), v)
}

func appendDouble(b []byte, field uint64, v float64) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(b, field, fixed64), math.Float64bits(v))
}

func appendFloat(b []byte, field uint64, v float32) []byte {
	return binary.LittleEndian.AppendUint32(appendKey(b, field, fixed32), math.Float32bits(v))
}

func appendBytes(b []byte, field uint64, data []byte) []byte {
	return append(binary.AppendUvarint(appendKey(b, field, lengths), uint64(len(data))), data...)
}

func appendString(b []byte, field uint64, s string) []byte { return appendBytes(b, field, []byte(s)) }

// appendValue adds a scalar to a summary.
func appendValue(summary []byte, tag string, v float64) []byte {
	return appendBytes(summary, 1, appendFloat(appendString(nil, 1, tag), 2, float32(v)))
}
