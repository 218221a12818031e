package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed98097648/tune/internal/plainjson"
)

// ErrMissing is wrapped by the error of Read where there is no journal, or nothing in it.
var ErrMissing = errors.New("no journal")

// Read reads the journal of a run's folder, or the journal at path itself. Errors name
// the file and the line.
func Read(path string) (*Run, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, File)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s does not exist: name the folder of a training run, its trainer.Config.Out",
			ErrMissing, path)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	r, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return r, nil
}

// longest is the longest line that is read; the start of a model of a thousand layers has
// less than a tenth of it.
const longest = 16 << 20

// parse reads lines. Errors begin with the number of the line.
func parse(from io.Reader) (*Run, error) {
	r := &Run{}
	lines := bufio.NewReader(from)
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) { // what has no end is torn
			break
		}
		if err == nil {
			err = r.add(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
	}
	if r.Start == nil {
		return nil, fmt.Errorf("1: %w: the file is empty, the run was stopped before it began", ErrMissing)
	}
	return r, nil
}

func readLine(lines *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := lines.ReadSlice('\n')
		if len(whole)+len(part) > longest {
			return nil, fmt.Errorf("the line is longer than %d MiB: this is no journal of a run", longest>>20)
		}
		if whole = append(whole, part...); !errors.Is(err, bufio.ErrBufferFull) {
			return whole, err
		}
	}
}

// add reads one line.
func (r *Run) add(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var head struct {
		Event string `json:"event"`
	}
	if err := plainjson.Unmarshal(line, &head); err != nil {
		if r.Start == nil {
			return fmt.Errorf("this is no journal of a run: %w", err)
		}
		return fmt.Errorf("not a line of a journal: %w; remove the line to read the rest", err)
	}
	e := newEvent(head.Event)
	if e == nil {
		return nil
	}
	if err := plainjson.Unmarshal(line, e); err != nil {
		return fmt.Errorf("%s: %w; remove the line to read the rest", head.Event, err)
	}
	start, begins := e.(*Start)
	switch {
	case begins && start.Version != Version:
		return fmt.Errorf("version is %d, this program reads %d: use the program that wrote it", start.Version, Version)
	case !begins && r.Start == nil:
		return fmt.Errorf("%s before start: the beginning of the journal is missing", head.Event)
	}
	return r.Record(e)
}
