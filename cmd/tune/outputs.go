package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/checkpoint"
)

// outputFlags name the files that a measurement is written to, besides its table.
type outputFlags struct{ json, gobench, html string }

func (o *outputFlags) add(f *pflag.FlagSet) {
	f.StringVar(&o.json, "json", "",
		"also write the result to this `FILE`; - for standard output, in place of the table")
	f.StringVar(&o.gobench, "gobench", "",
		"also write each measurement to this `FILE` in the Go benchmark format, for benchstat; - as above")
}

// measured is what has been measured.
type measured interface{ Table() string }

// output is a form of a result, and where to: a file, "-" for standard output in place of the
// table, or "" for nowhere.
type output struct {
	flag, file string
	text       func(measured) ([]byte, error)
}

func (o *outputFlags) forms() []output {
	return []output{
		{"--json", o.json, func(r measured) ([]byte, error) {
			var text bytes.Buffer
			err := writeJSON(&text, r)
			return text.Bytes(), err
		}},
		{"--gobench", o.gobench, func(r measured) ([]byte, error) {
			return []byte(r.(interface{ GoBench() string }).GoBench()), nil
		}},
		{"--html", o.html, func(r measured) ([]byte, error) { return r.(*bench.Result).HTML() }},
	}
}

// check refuses two outputs in one place, and one that could not be written, before anything
// is measured.
func (o *outputFlags) check(c *Command) error {
	by := map[string]string{}
	for _, f := range o.forms() {
		if other := by[f.file]; f.file != "" && other != "" {
			return c.usagef("%s and %s would both write %s: name another file for one of them", other, f.flag, f.file)
		}
		by[f.file] = f.flag
		if err := checkWritable(f.file); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
	}
	return nil
}

// print writes the files, and the table, unless a file takes its place.
func (a *app) print(r measured, forms []output) error {
	table := r.Table()
	for _, f := range forms {
		if f.file == "" {
			continue
		}
		text, err := f.text(r)
		if err == nil && f.file == "-" {
			table = string(text)
			continue
		}
		if err == nil {
			err = writeWhole(f.file, text)
		}
		if err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		a.note("wrote %s", f.file)
	}
	_, err := fmt.Fprint(a.stdout, table)
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

// standardOut is standard output. It remembers what went wrong with it: not everything that prints looks.
type standardOut struct {
	io.Writer
	err error // the first
}

// Write implements io.Writer.
func (o *standardOut) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// Fd is that of a file, by which a terminal is known; of anything else it is none.
func (o *standardOut) Fd() uintptr {
	if f, ok := o.Writer.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// written is the error of a command of which err is known. Results that nobody has got are a failure, unless they are
// saved elsewhere; where nobody reads any more, as behind head, they are wanted by nobody.
func (a *app) written(o *standardOut, err error) error {
	switch {
	case errors.Is(o.err, syscall.EPIPE) && errors.Is(err, o.err):
		return nil
	case err != nil || o.err == nil || errors.Is(o.err, syscall.EPIPE):
		return err
	case a.saves:
		a.note("warning: what was printed is not complete: %v", o.err)
		return nil
	}
	return o.err
}
