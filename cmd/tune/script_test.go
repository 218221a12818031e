package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/models"
)

// TestScripts runs the command as a user does. Beside the usual commands, scripts have:
//
//	status N ARGS...    run tune, which must exit with N
//	model DIR TYPE      make a tiny model folder
//	steps N             stdout must be N JSON lines of --log json and nothing else
//	export DIR FILE     export a model, or be told why not
//	json KEYS...        stdout must be one JSON value; an object with exactly these keys
//
// $PLUGINS is a folder with the project's plugins, $BLAS, $ONEDNN and $CUDA are ones with blas_linear, onednn_linear
// and cuda_linear alone, $TUNE is the command's path, and $SOURCE the checkout;
// in $WORK are text.txt, a corpus, and nothing else that a script did not make.
func TestScripts(t *testing.T) {
	t.Parallel()
	p := scripts(t)
	p.Dir, p.RequireUniqueNames = filepath.Join("testdata", "script"), true
	testscript.Run(t, p)
}

// TestEveryFamilyTrains runs one script for each, with its small model in the folder m.
func TestEveryFamilyTrains(t *testing.T) {
	t.Parallel()
	for _, f := range models.Families() {
		t.Run(f.Type, func(t *testing.T) {
			t.Parallel()
			c := f.Small()
			c["vocab_size"], c["hidden_size"], c["intermediate_size"], c["head_dim"], c["initializer_range"] = 257, 32, 48, 8,
				0.02
			config, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			p := scripts(t)
			p.Files = []string{filepath.Join("testdata", "family.txtar")}
			setup := p.Setup
			p.Setup = func(e *testscript.Env) error {
				return errors.Join(setup(e), writeConfig(filepath.Join(e.WorkDir, "m"), config))
			}
			testscript.Run(t, p)
		})
	}
}

// scripts returns what all scripts run with.
func scripts(t *testing.T) testscript.Params {
	t.Helper()
	dir, root := pluginDir(t), testdata.Root(t)
	gocache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	tune, err := exec.LookPath("tune")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Setup: func(e *testscript.Env) error {
			e.Setenv("PLUGINS", dir)
			e.Setenv("BLAS", filepath.Join(filepath.Dir(dir), "blas"))
			e.Setenv("ONEDNN", filepath.Join(filepath.Dir(dir), "onednn"))
			e.Setenv("CUDA", filepath.Join(filepath.Dir(dir), "cuda"))
			e.Setenv("TUNE", tune)
			e.Setenv("SOURCE", root)
			e.Setenv("XDG_CACHE_HOME", cacheDir(t))
			e.Setenv("GOGC", os.Getenv("GOGC"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			e.Setenv("GOCACHE", strings.TrimSpace(string(gocache)))
			return os.WriteFile(filepath.Join(e.WorkDir, "text.txt"), []byte(sampleText()), 0o666)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": status,
			"model": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(writeModel(ts.MkAbs(args[0]), args[1]))
			},
			"steps":  checkSteps,
			"json":   checkJSON,
			"export": exportOrWhyNot,
		},
	}
}

// exportOrWhyNot exports a model; what cannot be must name the field of config.json that says so.
func exportOrWhyNot(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("tune", "export", "--model", args[0], "--gguf", args[1])
	_, missing := os.Stat(ts.MkAbs(args[1]))
	why := regexp.MustCompile(`config\.json: .+; such a model cannot be exported`)
	if refused := err != nil; refused != (missing != nil) || refused && !why.MatchString(ts.ReadFile("stderr")) {
		ts.Fatalf("the export ended with %v, the file with %v", err, missing)
	}
}

// status runs tune and compares its exit code.
func status(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("tune", args[1:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("tune: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func checkSteps(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	lines := bytes.Split(bytes.TrimSpace([]byte(ts.ReadFile("stdout"))), []byte("\n"))
	if len(lines) != want {
		ts.Fatalf("%d lines, want %d", len(lines), want)
	}
	for i, line := range lines {
		keys := keysOf(ts, line)
		if !slices.Equal(keys, []string{"grad_norm", "loss", "lr", "step", "tokens_per_s"}) {
			ts.Fatalf("line %d has the keys %v", i+1, keys)
		}
	}
}

func checkJSON(ts *testscript.TestScript, _ bool, args []string) {
	got := keysOf(ts, []byte(ts.ReadFile("stdout")))
	slices.Sort(args)
	if !slices.Equal(got, args) {
		ts.Fatalf("the object has the keys %v, want %v", got, args)
	}
}

// keysOf returns the keys of a JSON object, sorted.
func keysOf(ts *testscript.TestScript, b []byte) []string {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		ts.Fatalf("not a JSON object: %v\n%s", err, b)
	}
	keys := []string{}
	for k := range object {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
