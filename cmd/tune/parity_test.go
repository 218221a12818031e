package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/parity"
)

// runTune runs the command in this process.
func runTune(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

// TestParityOfAReferenceModel is of the command; the tests of trainer/parity have all models with the same plugins.
func TestParityOfAReferenceModel(t *testing.T) {
	dir := testdata.Shared(t, "golden", "models", "llama-tiny")
	t.Setenv("XDG_CACHE_HOME", cacheDir(t))
	code, stdout, stderr := runTune("parity", dir, "--kernels", "all", "--json", "--plugin-dir", pluginDir(t))
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	var r parity.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	if !r.Pass || r.Case != "llama-tiny" || r.Kernels != "all" || r.GradsCompared == 0 ||
		r.KernelsApplied["npu_fused_rmsnorm"] == 0 {
		t.Errorf("got %+v", r)
	}
}

// TestParityFailsForAnotherModel compares with a reference that was computed with
// another epsilon.
func TestParityFailsForAnotherModel(t *testing.T) {
	from := testdata.Shared(t, "golden", "models", "llama-tiny")
	dir := filepath.Join(t.TempDir(), "changed")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	config["rms_norm_eps"] = 0.1
	if raw, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runTune("parity", from, dir)
	if code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[1], "pass") || !strings.HasSuffix(lines[2], "FAIL") {
		t.Errorf("want a head, a case that passes and one that fails:\n%s", stdout)
	}
	if !strings.Contains(stderr, "tune: changed: logits differs by") {
		t.Errorf("standard error does not say what differs:\n%s", stderr)
	}
}
