package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/parity"
)

// TestJSONHasNullWhereANumberIsNotFinite: a difference, a share or a rate that is infinite or
// no number costs neither the line nor the rest of it.
func TestJSONHasNullWhereANumberIsNotFinite(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for name, write := range map[string]func(io.Writer) error{
			"loss_abs": func(w io.Writer) error {
				return (&parityPrinter{json: true, out: w}).print(&parity.Result{Case: "named", LossAbs: x, GradWorstRel: 1})
			},
			"perplexity": func(w io.Writer) error {
				return plainjson.Encode(w, &evaluation{Model: "named", Perplexity: x}, "")
			},
			"share_of_limit": func(w io.Writer) error { return writeJSON(w, kerneltest.Result{Case: "named", Share: x}) },
			"temperature": func(w io.Writer) error {
				return writeResult(w, &generate.Result{Text: "named"}, generate.Sampling{Temperature: x})
			},
			"clip": func(w io.Writer) error {
				text, err := (&outputFlags{}).forms()[0].text(&bench.Result{Config: bench.Config{Model: "named", Clip: x,
					ModelJSON: json.RawMessage("{}")}})
				w.Write(text)
				return err
			},
		} {
			var b bytes.Buffer
			err := write(&b)
			if err != nil || !json.Valid(b.Bytes()) || !regexp.MustCompile(`"`+name+`": ?null`).Match(b.Bytes()) ||
				!strings.Contains(b.String(), "named") {
				t.Errorf("%s of %v: %v\n%s", name, x, err, &b)
			}
		}
	}
}

// TestResultsAreWrittenByPlainJSON: encoding/json refuses a result for one such number.
func TestResultsAreWrittenByPlainJSON(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`\bjson\.(NewEncoder|Marshal)`).Find(text); m != nil &&
			!strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s calls %s; use plainjson", name, m)
		}
	}
}
