package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// results is the file of --out, a line for each of --prompts, in their order.
type results struct {
	path   string
	file   *os.File
	claim  *checkpoint.Claim
	done   int // lines that it has
	failed int // of these, without a text
}

// openResults opens a file, which need not exist, to go on with it. Half a line at its end, which a run that was
// killed had begun, is taken away. The caller closes what it returns.
func openResults(path string, prompts []promptLine) (_ *results, err error) {
	r := &results{path: path}
	if r.claim, err = checkpoint.NewClaim(path); err != nil {
		return nil, err
	}
	defer closingFailed(r, &err)
	if r.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, plainfile.Explain(err)
	}
	text, err := io.ReadAll(r.file)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	for line := range bytes.Lines(text[:whole]) {
		if err := r.compare(line, prompts); err != nil {
			return nil, r.foreign(err)
		}
	}
	if whole == len(text) {
		return r, nil
	}
	if !r.begun(text[whole:], prompts) {
		return nil, r.foreign(errors.New("not the beginning of the next line of results"))
	}
	return r, r.file.Truncate(int64(whole))
}

// foreign is an error about the line after those that are done.
func (r *results) foreign(err error) error {
	return fmt.Errorf("%s:%d: %w; choose another file, or remove it", r.path, r.done+1, err)
}

// begun reports whether half a line may be the beginning of the next answer.
func (r *results) begun(half []byte, prompts []promptLine) bool {
	if r.done == len(prompts) {
		return false
	}
	begin := fmt.Appendf(nil, `{"id":%s,`, prompts[r.done].ID)
	n := min(len(half), len(begin))
	return bytes.Equal(half[:n], begin[:n])
}

// compare checks that a line of the file is the answer to the prompt in its place.
func (r *results) compare(line []byte, prompts []promptLine) error {
	var was resultLine
	if err := plainjson.Unmarshal(line, &was); err != nil {
		return fmt.Errorf("not a line of results: %w", err)
	}
	if r.done == len(prompts) {
		return errors.New("there are more lines than --prompts has")
	}
	if want := prompts[r.done].ID; !bytes.Equal(was.ID, want) {
		return fmt.Errorf("the id is %s, and that of the prompt in its place is %s: these are answers to other prompts",
			was.ID, want)
	}
	r.count(&was)
	return nil
}

func (r *results) count(line *resultLine) {
	r.done++
	if line.Error != "" {
		r.failed++
	}
}

// add writes a line at once.
func (r *results) add(line *resultLine) error {
	if err := plainjson.Encode(r.file, line, ""); err != nil {
		return err
	}
	r.count(line)
	return nil
}

// failures reports lines without a text.
func (r *results) failures() error {
	if r.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s without a text: see \"error\" in %s", r.failed, amount.Of(r.done, "line"), r.path)
}

// Close ends the writing. A file without a line is not left behind.
func (r *results) Close() error {
	var err error
	if r.file != nil {
		err = errors.Join(r.file.Sync(), r.file.Close())
		if info, statErr := os.Stat(r.path); statErr == nil && info.Mode().IsRegular() && info.Size() == 0 {
			err = errors.Join(err, os.Remove(r.path))
		}
	}
	return errors.Join(err, r.claim.Close())
}
