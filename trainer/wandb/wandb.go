// Package wandb writes the figures of a training run as an offline run of Weights & Biases, which "wandb sync"
// uploads.
//
// A folder offline-run-DATE_TIME-ID has the file run-ID.wandb. It begins with ":W&B", 0xBEE1 in two bytes,
// little-endian, and the version 0; the rest is a log of LevelDB's: blocks of 32 KiB, records that are cut at
// their ends, each part with a checksum in 4 bytes, its length in 2, and 1 if it is the whole, 2 if the first, 3
// if one in the middle, or 4 if the last. The checksum is CRC-32, IEEE, of that number and the part. What is left
// of a block that has no room for these 7 bytes is zero. The data of a record is a protocol buffer:
//
//	message Record {
//	  int64 num = 1;               // from 1
//	  HistoryRecord history = 2;
//	  SummaryRecord summary = 3;
//	  RunRecord run = 17;
//	  RunExitRecord exit = 18;
//	}
//	message RunRecord {
//	  string run_id = 1; string project = 3; ConfigRecord config = 4; string display_name = 8;
//	  Timestamp start_time = 17;   // seconds = 1, nanos = 2
//	}
//	message ConfigRecord { repeated Item update = 1; }
//	message SummaryRecord { repeated Item update = 1; }
//	message HistoryRecord { repeated Item item = 1; HistoryStep step = 2; } // num = 1
//	message Item { string key = 1; repeated string nested_key = 2; string value_json = 16; }
//	message RunExitRecord { int32 exit_code = 1; int32 runtime = 2; }
package wandb

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed98097648/tune/trainer/journal"
)

// Project is the name under which runs appear, unless "wandb sync --project" gives another.
const Project = "tune"

// Writer writes an offline run. It is a sink of a run.
type Writer struct {
	journal.Rows
	Dir string // offline-run-...

	name, id string
	log      *log
	number   uint64
	began    time.Time
	last     map[string]string // the newest values, as JSON
}

// New starts an offline run in a folder, such as wandb, where it is shown as name. A run that goes on is written
// from its beginning. The caller closes the writer.
func New(dir, name string, now time.Time) (*Writer, error) {
	id := strings.ToLower(rand.Text()[:8])
	w := &Writer{Dir: filepath.Join(dir, "offline-run-"+now.Format("20060102_150405")+"-"+id), name: name, id: id,
		last: map[string]string{}}
	w.Write = w.row
	if err := os.MkdirAll(filepath.Join(w.Dir, "files"), 0o777); err != nil {
		return nil, fmt.Errorf("wandb: %w", err)
	}
	var err error
	if w.log, err = openLog(filepath.Join(w.Dir, "run-"+id+".wandb")); err != nil {
		return nil, fmt.Errorf("wandb: %w", err)
	}
	return w, nil
}

// Record implements journal.Sink.
func (w *Writer) Record(e journal.Event) error {
	if start, ok := e.(*journal.Start); ok {
		if err := w.run(start); err != nil {
			return err
		}
	}
	if err := w.Rows.Record(e); err != nil {
		return err
	}
	if end, ok := e.(*journal.End); ok {
		return w.exit(end)
	}
	return nil
}

// run writes who the run is and its configuration.
func (w *Writer) run(s *journal.Start) error {
	w.began = s.Time
	var config map[string]json.RawMessage
	if err := json.Unmarshal(s.Config, &config); err != nil {
		return fmt.Errorf("wandb: the configuration: %w", err)
	}
	var items []byte
	for _, key := range slices.Sorted(maps.Keys(config)) {
		items = appendBytes(items, 1, appendString(appendString(nil, 1, key), 16, string(config[key])))
	}
	stamp := appendNumber(appendNumber(nil, 1, uint64(s.Time.Unix())), 2, uint64(s.Time.Nanosecond()))
	b := appendString(appendString(nil, 1, w.id), 3, Project)
	b = appendString(appendBytes(b, 4, items), 8, w.name)
	return w.write(17, appendBytes(b, 17, stamp))
}

// row writes what was measured of a step. A number that is not finite is left out.
func (w *Writer) row(r journal.Row) error {
	values := []journal.Scalar{{Name: "_step", Value: float64(r.Step)},
		{Name: "_timestamp", Value: float64(r.Time.UnixMicro()) / 1e6},
		{Name: "_runtime", Value: math.Max(r.Time.Sub(w.began).Seconds(), 0)}}
	var b []byte
	for _, v := range slices.Concat(values, r.Scalars) {
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			continue
		}
		text, err := json.Marshal(v.Value)
		if err != nil {
			return fmt.Errorf("wandb: %s: %w", v.Name, err)
		}
		w.last[v.Name] = string(text)
		b = appendBytes(b, 1, item(v.Name, string(text)))
	}
	return w.write(2, appendBytes(b, 2, appendNumber(nil, 1, uint64(r.Step))))
}

// item is a value by its name, which a dot does not take apart.
func item(name, value string) []byte {
	return appendString(appendString(nil, 2, name), 16, value)
}

// exit writes the last values, which are the summary of a run, and how it ended.
func (w *Writer) exit(e *journal.End) error {
	if err := w.Flush(); err != nil {
		return err
	}
	var summary []byte
	for _, name := range slices.Sorted(maps.Keys(w.last)) {
		summary = appendBytes(summary, 1, item(name, w.last[name]))
	}
	if err := w.write(3, summary); err != nil {
		return err
	}
	code := uint64(0)
	switch {
	case e.Error != "":
		code = 1
	case e.Interrupted:
		code = 255
	}
	seconds := max(e.Time.Sub(w.began), 0) / time.Second
	return w.write(18, appendNumber(appendNumber(nil, 1, code), 2, uint64(seconds)))
}

// write adds a record of a kind.
func (w *Writer) write(kind protowire.Number, data []byte) error {
	w.number++
	if err := w.log.add(appendBytes(appendNumber(nil, 1, w.number), kind, data)); err != nil {
		return fmt.Errorf("wandb: %w", err)
	}
	return nil
}

// Close brings the run to the disk.
func (w *Writer) Close() error {
	err := w.Flush()
	if ended := w.log.close(); ended != nil {
		err = errors.Join(err, fmt.Errorf("wandb: %w", ended))
	}
	return err
}

func appendBytes(b []byte, field protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), data)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return appendBytes(b, field, []byte(s))
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}
