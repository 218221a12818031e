// Package examples_test runs every example as a user would, against freshly built
// plugins.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/ctest"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/demo"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// output builds and runs an example.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	plugintest.Compile(t, dir, "./examples/"+name)
	cmd := exec.Command(filepath.Join(dir, name), args...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// inFolder runs the tune of a folder there, with a folder of plugins.
func inFolder(t *testing.T, dir, plugins string) func(args ...string) string {
	cache := t.TempDir()
	return func(args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "tune"), append(args, "--plugin-dir", plugins)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_CACHE_HOME="+cache)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
}

func wantLines(t *testing.T, out string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)` + p).MatchString(out) {
			t.Errorf("no line matches %q in:\n%s", p, out)
		}
	}
}

func TestPatchOneLayer(t *testing.T) {
	wantLines(t, output(t, "patch_one_layer", plugintest.Dir(t)),
		`layers\.\*\.mlp +plain -> npu_fused_swiglu`, `^1 of 1 sites`, `layers\.0\.mlp uses a kernel: false`)
}

func TestCompareLoss(t *testing.T) {
	wantLines(t, output(t, "compare_loss", plugintest.Dir(t)), `^step 20 `, `^largest difference [0-9.]+e-0[5-9]$`)
}

func TestFinetuneFolder(t *testing.T) {
	model := t.TempDir()
	c := trainer.Default()
	c.Out, c.Kernels, c.Steps = filepath.Join(model, "demo"), "none", 1
	d, err := demo.New(demo.Config(c, func(flag string) bool { return flag == "steps" }), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	d.Job.Eval = nil
	if _, err := d.Job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, out := filepath.Join(model, "text.jsonl"), filepath.Join(model, "out")
	lines := strings.Repeat(`{"text": "one cat, two cats, and to bark, it barked and then to jump, it jumped over"}`+"\n", 60)
	if err := os.WriteFile(text, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	got := output(t, "finetune_folder", filepath.Join(model, "demo"), text, out, plugintest.Dir(t))
	wantLines(t, got, `plain moe_experts|plain -> npu_fused_moe`, `^    ([0-9.]+x: .*|npu_fused_moe is .*) ms plain, [0-9]+ tokens$`, `^step 20 +loss`, `^held-out loss`, `^saved `)
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", trainer.LogFile} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestOwnModel builds the program of another module as its author does, outside this one.
func TestOwnModel(t *testing.T) {
	root, dir := testdata.Root(t), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", "own_model"))); err != nil {
		t.Fatal(err)
	}
	main := readFile(t, filepath.Join(dir, "main.go"))
	if n := strings.Count(main, "\n"); n > 60 {
		t.Errorf("main.go has %d lines; it is to show that 60 are enough", n)
	}
	mod := strings.Replace(readFile(t, filepath.Join(dir, "go.mod")), "=> ../..", "=> "+strconv.Quote(root), 1)
	for name, text := range map[string]string{"go.mod": mod, "go.sum": readFile(t, filepath.Join(root, "go.sum"))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cache := goCache(t)
	program := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod "+testdata.TrimPath(), "GOPROXY=off",
			"XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "GOCACHE="+cache)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	program("go", "build", "-o", "own.exe", ".")
	out := program(filepath.Join(dir, "own.exe"))
	wantLines(t, out, `^1 +norm +plain (-> own_norm|rms_norm)$`, `^    .* ms plain, 256 tokens$`, `^[01] of 2 sites`)
	losses := regexp.MustCompile(`loss ([0-9.]+) plain, ([0-9.]+) placed, ([0-9.]+) restored`).FindStringSubmatch(out)
	if losses == nil || losses[1] != losses[3] {
		t.Errorf("the model is not as it was:\n%s", out)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// goCache is where the go command keeps what it has built, wherever other programs keep
// theirs.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestCKernelsCompileWithoutAWarning, each kernel in C++ as well, as docs/writing-a-kernel.md says.
func TestCKernelsCompileWithoutAWarning(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join("c_kernel", "*.c"))
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	for _, source := range sources {
		ctest.Clean(t, filepath.Join("examples", source), filepath.Base(source) != "tune_plugin.c")
	}
}

// TestCKernel builds the plugins in C as their README says, verifies them like any other, and
// trains with one. Of the plain loops of swiglu in all sizes, thousands of calls take most of the time:
// those are checked of rms_norm, whose side of the protocol is the same, and by the gate of a new plugin in C.
func TestCKernel(t *testing.T) {
	dir := t.TempDir()
	plugins := filepath.Join(dir, "plugins")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	ctest.Compile(t, filepath.Join(plugins, "c_swiglu"), "examples/c_kernel/swiglu.c")
	ctest.Compile(t, filepath.Join(plugins, "c_rms_norm"), "examples/c_kernel/rms_norm.c")
	plugintest.Compile(t, dir, "./cmd/tune")
	tune := inFolder(t, dir, plugins)
	verified := tune("kernels", "verify", "c_rms_norm", "--quick")
	wantLines(t, verified, `^rms_norm: [0-9]+ ok, 0 failed`, `^c_rms_norm: ok, [0-9]+ cases`)
	if strings.Contains(verified, "c_rms_norm computes on") {
		t.Errorf("it lists what the kernel does not support:\n%s", verified)
	}
	verified = tune("kernels", "verify", "c_swiglu", "--skip-case",
		"memory over|left behind|the same call|any order|at rest|one thread is one|latency")
	wantLines(t, verified, `^swiglu: [0-9]+ ok, 0 failed`, `^c_swiglu: ok, [0-9]+ cases`,
		`^ +CASE +FLOAT32 +BFLOAT16 +FLOAT16`, `^ +one token +10 .* 10 .* not run`)
	wantLines(t, tune("--steps", "3", "--kernels", "c_swiglu", "--strict", "--kernels-verbose"), `mlp +plain -> c_swiglu$`, `^done: 3 steps`)
}
