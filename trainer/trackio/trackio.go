// Package trackio writes the figures of a training run as a CSV file, which trackio.import_csv reads into a
// project: a row for each step, with the columns step, timestamp, and one for each figure.
//
// import_csv takes ten letters, digits and slashes of the name of a column and drops the rest, so the names are no
// longer than that.
package trackio

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed98097648/tune/trainer/journal"
)

// longest is as much of a column's name as import_csv takes.
const longest = 10

// short are columns whose names would be cut otherwise.
var short = map[string]string{
	journal.ScalarLR: "train/lr", journal.ScalarGradNorm: "train/norm", journal.ScalarRate: "train/toks",
}

// Writer writes a CSV file. It is a sink of a run.
type Writer struct {
	journal.Rows
	path    string
	file    *os.File
	columns []string // the names of the scalars
	heads   []string // what stands for them in the file
}

// New starts the file of a run in a folder, such as trackio. There, one of this name is of an earlier run, and is
// replaced. A run that goes on is written from its beginning. The caller closes the writer.
func New(dir, name string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("trackio: %w", err)
	}
	w := &Writer{path: filepath.Join(dir, name+".csv")}
	w.Write = w.row
	var err error
	if w.file, err = os.Create(w.path); err != nil {
		return nil, fmt.Errorf("trackio: %w", err)
	}
	return w, nil
}

// row writes what was measured of a step. A number that is not finite is left out.
func (w *Writer) row(r journal.Row) error {
	if err := w.widen(r.Scalars); err != nil {
		return err
	}
	line := make([]string, 2+len(w.columns))
	line[0], line[1] = strconv.Itoa(r.Step), r.Time.UTC().Format(time.RFC3339Nano)
	for _, s := range r.Scalars {
		if !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) {
			line[2+slices.Index(w.columns, s.Name)] = strconv.FormatFloat(s.Value, 'g', -1, 64)
		}
	}
	return w.lines(w.file, [][]string{line})
}

// widen gives scalars that are new a column each, in all lines so far.
func (w *Writer) widen(all []journal.Scalar) error {
	before := len(w.columns)
	for _, s := range all {
		if !slices.Contains(w.columns, s.Name) {
			w.columns, w.heads = append(w.columns, s.Name), append(w.heads, w.head(s.Name))
		}
	}
	if len(w.columns) == before {
		return nil
	}
	so, err := os.Open(w.path)
	if err != nil {
		return fmt.Errorf("trackio: %w", err)
	}
	lines, err := csv.NewReader(so).ReadAll()
	if err = errors.Join(err, so.Close()); err != nil {
		return fmt.Errorf("trackio: %s: %w", w.path, err)
	}
	for i := range lines {
		lines[i] = append(lines[i], make([]string, len(w.columns)-before)...)
	}
	if len(lines) == 0 {
		lines = make([][]string, 1)
	}
	lines[0] = append([]string{"step", "timestamp"}, w.heads...)
	if _, err := w.file.Seek(0, 0); err != nil {
		return fmt.Errorf("trackio: %w", err)
	}
	return w.lines(w.file, lines) // longer than what was there
}

// head is a name that import_csv leaves as it is, and no other column has.
func (w *Writer) head(name string) string {
	head := short[name]
	if head == "" {
		head = strings.Map(func(r rune) rune {
			if r == '/' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return -1
		}, name)
	}
	cut := head[:min(len(head), longest)]
	for n := 2; slices.Contains(w.heads, cut) || cut == "step" || cut == "timestamp"; n++ {
		end := strconv.Itoa(n)
		cut = head[:min(len(head), longest-len(end))] + end
	}
	return cut
}

func (w *Writer) lines(to *os.File, lines [][]string) error {
	c := csv.NewWriter(to)
	if err := c.WriteAll(lines); err != nil {
		return fmt.Errorf("trackio: %w", err)
	}
	return nil
}

// Close brings the file to the disk.
func (w *Writer) Close() error {
	err := w.Flush()
	if ended := errors.Join(w.file.Sync(), w.file.Close()); ended != nil {
		err = errors.Join(err, fmt.Errorf("trackio: %w", ended))
	}
	return err
}
