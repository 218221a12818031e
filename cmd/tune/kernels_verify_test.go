package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core/kerneltest"
)

// verify runs "tune kernels verify" on a plugin of the tests and returns its exit code and
// what it printed.
func verify(t *testing.T, plugin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := exec.LookPath(plugin)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "tune", append([]string{"kernels", "verify", path}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestVerifyCatchesPlantedBugs runs the command on executables with one bug each. It must
// fail and name the case, the pass and the tensor.
func TestVerifyCatchesPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		plugin string
		only   string   // the cases that find it; a leak of little shows behind all others, if there is garbage, too
		want   []string // expressions, each of which a line must match
		args   []string
	}{
		{"bug_outputs", "random|nan and inf",
			[]string{`FAILED rms_norm backward dweight, .* random`, `rms_norm float32 dim=`, `error 1, limit `,
				`FAILED rms_norm forward y, .* random`, ` T=7 random`, `FAILED rms_norm backward dx, .*nan and inf`,
				`not finite in the same places`}, nil},
		{"bug_gate_and_up", "one token", []string{`FAILED swiglu forward y, .* one token`, `layout=separate`}, nil},
		{"bug_pairing", "random",
			[]string{`FAILED rope forward q_out`, `FAILED rope backward dk`, `pairing=interleaved`}, nil},
		{"bug_unwritten", "one token", []string{`FAILED swiglu forward y`, `was not written`}, nil},
		{"bug_stale", "one token",
			[]string{`FAILED swiglu forward y`, `was not written by the second of two calls`}, nil},
		{"bug_past_the_end", "one token",
			[]string{`FAILED rms_norm forward y`, `FAILED rms_norm backward dx`, `wrote past the tensor`},
			nil},
		{"bug_race", "the same call 200 times|random",
			[]string{`FAILED rms_norm backward dweight, .*(same call 200 times|random)`}, nil},
		{"bug_threads", "one thread or more",
			[]string{`FAILED rms_norm backward dweight, [0-9] cases?: one thread or more`,
				`with one thread and with more: .* other bits at \[0\]`}, nil},
		{"bug_leak", "", []string{`FAILED rms_norm, [12] cases?: memory over 1000 calls`,
			`the process grows by [0-9]+ bytes with each call`}, nil},
		{"bug_keeps_data", "calls in turn", []string{`FAILED swiglu forward y, .*calls in turn`}, nil},
		{"bug_keeps_weight", "inputs known by number", []string{`FAILED rms_norm forward y, .*inputs known by number`,
			`with other data at the same place, and other numbers: `}, nil},
		{"bug_counts_calls", "the same call 200 times",
			[]string{`FAILED rope forward q_out, .* the same call 200 times`,
				`call [0-9]+ of 200: .* other bits`}, nil},
		{"bug_writes_input", "one token",
			[]string{`FAILED swiglu backward dy, .* one token`, `wrote to an input`}, nil},
		{"bug_borrows_input", "read-only inputs",
			[]string{`FAILED swiglu forward, 1 case: read-only inputs`, `plugin exited`}, nil},
		{"bug_bias", "32 stacked layers",
			[]string{`FAILED rope forward q_out, 1 case: 32 stacked layers`, `after [0-9]+ layers: `}, nil},
		{"bug_truncates", "32 stacked layers", []string{`FAILED swiglu forward y, 1 case: 32 stacked layers`,
			`is storage rounded to nearest even`}, nil},
		{"bug_idle_expert", "one expert for every choice",
			[]string{`FAILED moe_experts backward ddown, .* one expert for every choice`}, nil},
		{"bug_dies", "token|random|stacked|turn", []string{`FAILED rms_norm, 3 cases: `, `the process died or was stopped`,
			`stopped after rms_norm .*, because the process died in 3 cases`}, nil},
		{"bug_hangs", "one token",
			[]string{`FAILED rms_norm backward, 1 case: one token`, `a call took longer than 7s`,
				`stopped after rms_norm `}, []string{"--call-timeout", "7s"}},
		{"bug_table", "one new token each", []string{`FAILED paged_attention forward y, .* one new token each`}, nil},
		{"bug_window", "window=", []string{`FAILED paged_attention forward y`, `window=`}, nil},
		{"bug_slot", "calls in turn",
			[]string{`FAILED reshape_and_cache forward k_cache`, `FAILED reshape_and_cache forward v_cache`}, nil},
		{"bug_no_slot", "no slot", []string{`FAILED reshape_and_cache forward k_cache, .* no slot`}, nil},
		{"bug_manifest", "one token",
			[]string{`FAILED manifest: the version is ""`, `the summary of swiglu is "two\\nlines"`,
				`the storage types of swiglu: none is named`}, nil},
		{"bug_two_faces", "one token",
			[]string{`FAILED manifest: another process says something else of itself than the first: its ` +
				`kernels were for \[rms_norm swiglu\], and now are for \[swiglu\]`}, []string{"--op", "swiglu"}},
		{"bug_after_another", "one thread or more", []string{`FAILED swiglu forward y, .*: one thread or more`}, nil},
		{"bug_silent", "", []string{`cannot be used: .*bug_silent: .* it is not a kernel plugin`}, nil},
	} {
		t.Run(tt.plugin, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := verify(t, tt.plugin, append(tt.args, "--quick", "--case", tt.only)...)
			if code != exitFailed {
				t.Errorf("exit code %d, want %d; %s", code, exitFailed, stderr)
			}
			flat := strings.Join(strings.Fields(stdout), " ") // lines are wrapped
			for _, want := range tt.want {
				if !regexp.MustCompile(want).MatchString(flat) {
					t.Errorf("nothing matches %q in\n%s", want, stdout)
				}
			}
			if !strings.Contains(flat, "FAILED") {
				t.Errorf("no verdict in\n%s", stdout)
			}
			const flag = "--call-timeout" // what is said while a call is waited for names it
			if slices.Contains(tt.args, flag) && !strings.Contains(stderr, "("+flag+")") {
				t.Errorf("no %s in\n%s", flag, stderr)
			}
		})
	}
}

// TestVerifyPassesARightKernel: the same executable without a bug, as text of a part of it, and as JSON.
func TestVerifyPassesARightKernel(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := verify(t, "bug_none_in_part", "--quick")
	if code != exitOK || !strings.Contains(stdout, "bug_none_in_part: ok, ") || strings.Contains(stdout, "FAILED") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for line := range strings.Lines(stdout) {
		if len(line) > columns+1 && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("line of %d bytes: %s", len(line), line)
		}
	}
	checkParts(t)
	code, stdout, stderr = verify(t, "bug_none", "--quick", "--json")
	var v verification
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if !v.OK || len(v.Plugins) != 1 || len(v.Plugins[0].Kernels) != 1 {
		t.Fatalf("%s", stdout)
	}
	checkKeys(t, stdout)
	k := v.Plugins[0].Kernels[0]
	if k.Kernel.Name != "bug_none" || k.Count(kerneltest.OK) < 30 || k.Count(kerneltest.Failed) != 0 ||
		len(k.Supports) == 0 {
		t.Errorf("%s", stdout)
	}
}

// checkParts verifies only some cases of a kernel.
func checkParts(t *testing.T) {
	t.Helper()
	for _, tt := range []struct {
		flags string
		code  int
		want  string // an expression for all that is printed
	}{
		{"--case token --skip-case latency", exitOK,
			`one token .*: ok, [0-9]+ cases with --case 'token' --skip-case 'latency' in`},
		{"--case T=7( --skip-case x", exitUsage, `there is no case with --case 'T=7\(' `},
		{"--case 2^31", exitFailed, `FAILED rms_norm, 1 case: storage types rms_norm storage types no case was run, so`},
	} {
		code, stdout, stderr := verify(t, "bug_none_in_part", append(strings.Fields(tt.flags), "--quick")...)
		out := strings.Join(strings.Fields(stdout+stderr), " ")
		if code != tt.code || !regexp.MustCompile(tt.want).MatchString(out) || strings.Contains(out, "latency of") {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", tt.flags, code, tt.code, tt.want, out)
		}
	}
}

// checkKeys looks at the names of the JSON's fields, which programs rely on.
func checkKeys(t *testing.T, text string) {
	t.Helper()
	type object = map[string]any
	first := func(o object, key string) object { return o[key].([]any)[0].(object) }
	var root object
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	plugin := first(root, "plugins")
	kernel := first(plugin, "kernels")
	for _, level := range []struct {
		name string
		o    object
		want string
	}{
		{"root", root, "ok plugins"},
		{"plugin", plugin, "checksum kernels left_behind manifest_violations name ok path version"},
		{"kernel", kernel, "kernel results supports took_ns"},
		{"result", first(kernel, "results"), "case facts kind op share_of_limit status tokens took_ns"},
		{"use", first(kernel, "supports"), "facts op supported"},
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(level.o)), " "); got != level.want {
			t.Errorf("%s has the keys %q, want %q", level.name, got, level.want)
		}
	}
}
