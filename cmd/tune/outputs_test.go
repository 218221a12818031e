package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/bench"
)

// result is the least that has a table and a page.
func result() *bench.Result {
	return &bench.Result{Runs: []bench.Measured{{Kernels: "none", Steps: []bench.Step{{Whole: 1}}}}}
}

func TestResultsReplaceOlderOnesWhole(t *testing.T) {
	dir := t.TempDir()
	b := outputFlags{json: filepath.Join(dir, "r.json"), gobench: filepath.Join(dir, "r.txt"),
		html: filepath.Join(dir, "r.html")}
	for _, o := range b.forms() {
		if err := os.WriteFile(o.file, []byte(strings.Repeat("older ", 1e5)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := (&app{stdout: io.Discard, stderr: &out}).print(result(), b.forms()); err != nil {
		t.Fatal(err)
	}
	for _, o := range b.forms() {
		text, err := os.ReadFile(o.file)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) == 0 || bytes.Contains(text, []byte("older")) {
			t.Errorf("%s: %d bytes, some of them older", o.flag, len(text))
		}
		if !strings.Contains(out.String(), "wrote "+o.file+"\n") {
			t.Errorf("%s is not named:\n%s", o.file, out.String())
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}

func TestAFailedResultLeavesTheOlderOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.txt")
	if err := os.WriteFile(file, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("no result")
	o := output{"--x", file, func(measured) ([]byte, error) { return []byte("half"), bad }}
	if err := (&app{stdout: io.Discard, stderr: io.Discard}).print(result(), []output{o}); !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "older" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

func TestADeviceIsWrittenAndNotReplaced(t *testing.T) {
	before, err := os.Stat(os.DevNull)
	if err != nil {
		t.Skip(err)
	}
	if err := writeWhole(os.DevNull, []byte("x")); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(os.DevNull)
	if err != nil || after.Mode() != before.Mode() || after.Mode().IsRegular() {
		t.Errorf("%s was %v and is %v, %v", os.DevNull, before.Mode(), after.Mode(), err)
	}
}
