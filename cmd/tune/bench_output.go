package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// benchOutput is a form in which bench writes its result, and where to: a file, "-" for
// standard output in place of the table, or "" for nowhere.
type benchOutput struct {
	flag, file string
	render     func(*bench.Result) ([]byte, error)
}

func (b *benchFlags) outputs() []benchOutput {
	return []benchOutput{
		{"--json", b.json, func(r *bench.Result) ([]byte, error) {
			var text bytes.Buffer
			err := plainjson.Encode(&text, r, "  ")
			return text.Bytes(), err
		}},
		{"--gobench", b.gobench, func(r *bench.Result) ([]byte, error) { return []byte(r.GoBench()), nil }},
		{"--html", b.html, (*bench.Result).HTML},
	}
}

// checkOutputs refuses two outputs in one place.
func (b *benchFlags) checkOutputs(c *Command) error {
	by := map[string]string{}
	for _, o := range b.outputs() {
		if other := by[o.file]; o.file != "" && other != "" {
			return c.usagef("%s and %s would both write %s: name another file for one of them", other, o.flag, o.file)
		}
		by[o.file] = o.flag
	}
	return nil
}

// writable reports an output that could not be written, before anything is measured.
func (b *benchFlags) writable() error {
	for _, o := range b.outputs() {
		if err := checkWritable(o.file); err != nil {
			return fmt.Errorf("%s: %w", o.flag, err)
		}
	}
	return nil
}

// printBench prints the table and writes the files.
func (a *app) printBench(r *bench.Result, outputs []benchOutput) error {
	table, wrote := r.Table(), ""
	for _, o := range outputs {
		if o.file == "" {
			continue
		}
		text, err := o.render(r)
		if err == nil && o.file == "-" {
			table = string(text)
			continue
		}
		if err == nil {
			err = writeWhole(o.file, text)
		}
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		wrote += fmt.Sprintf("wrote %s\n", o.file)
	}
	if _, err := fmt.Fprint(a.stdout, table); err != nil {
		return err
	}
	for _, o := range outputs {
		if o.file == "-" {
			return nil
		}
	}
	_, err := fmt.Fprint(a.stdout, wrote)
	return err
}

// writeWhole writes a file that never holds half of a result. What is no plain file,
// such as a pipe or a device, is written as it is.
func writeWhole(file string, text []byte) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(file, text, 0o644)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return checkpoint.WriteFileAtomic(file, text, 0o644)
}
