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

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed98097648/tune/trainer/journal"
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
	w.event = appendBytes(w.event, 3, []byte("brain.Event:2"))
	return w, w.write()
}

// Record implements journal.Sink.
func (w *Writer) Record(e journal.Event) error {
	if start, ok := e.(*journal.Start); ok {
		return w.start(start)
	}
	row, ok := journal.RowOf(e)
	if !ok {
		return nil
	}
	w.begin(row.Time, row.Step)
	var summary []byte
	for _, s := range row.Scalars {
		summary = appendValue(summary, s.Name, s.Value)
	}
	w.event = appendBytes(w.event, 5, summary)
	return w.write()
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
	w.event = protowire.AppendTag(w.event[:0], 1, protowire.Fixed64Type)
	w.event = protowire.AppendFixed64(w.event, math.Float64bits(float64(at.UnixMicro())/1e6))
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

// appendBytes adds a field that holds other fields, or text.
func appendBytes(b []byte, field protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), data)
}

// appendVarint adds a field that is a whole number.
func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// appendValue adds a scalar to a summary.
func appendValue(summary []byte, tag string, v float64) []byte {
	value := protowire.AppendTag(appendBytes(nil, 1, []byte(tag)), 2, protowire.Fixed32Type)
	return appendBytes(summary, 1, protowire.AppendFixed32(value, math.Float32bits(float32(v))))
}
