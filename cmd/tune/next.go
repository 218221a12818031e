package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

// unkept are train's flags that no checkpoint keeps, as they are of the machine, and with which a run goes on as it
// began: what it may take, how its ranks add up, and who else is told of it. Those of plugins come besides.
var unkept = []string{"memory", "max-kept", "max-time", "force", "report-to", "tensorboard", "distributed",
	"reduce-dtype", "shard-optimizer", "sync-check", "reduce-behind", "rank-timeout"}

// again are the flags of a run that what is typed next repeats, as a shell takes them.
type again struct{ plugins, unkept string }

// newAgain returns those of a training run.
func newAgain(c *Command, p *pluginFlags) again {
	return again{p.given(), givenOf(c.Flags, func(name string) bool { return slices.Contains(unkept, name) })}
}

// givenOf returns those flags that were given, or that a configuration file has, other than they are anyway: as for a
// shell, with a blank before each.
func givenOf(flags *pflag.FlagSet, wanted func(name string) bool) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || f.Value.String() == f.DefValue || !wanted(f.Name) {
			return
		}
		for _, value := range valuesOf(f) {
			switch f.NoOptDefVal {
			case "":
				fmt.Fprintf(&b, " --%s %s", f.Name, quoted(value))
			case value:
				fmt.Fprintf(&b, " --%s", f.Name)
			default:
				fmt.Fprintf(&b, " --%s=%s", f.Name, quoted(value))
			}
		}
	})
	return b.String()
}

// isNewestOf reports whether a checkpoint is the newest in the output folder of a run. One that is older, or another
// run's, is not what --resume would go on from there.
func isNewestOf(out, dir string) bool {
	steps, err := checkpoint.Steps(out)
	return err == nil && len(steps) > 0 && isSameFile(checkpoint.StepDir(out, steps[len(steps)-1]), dir)
}

// resumeCommand is what goes on from the newest checkpoint of a run.
func (a *app) resumeCommand() string {
	return fmt.Sprintf("%s --resume --out %s", invocation(), quoted(filepath.Dir(a.checkpoint))) + a.again.plugins +
		a.again.unkept
}

// printNext says what may be done with what a run has saved.
func (a *app) printNext(w io.Writer, c trainer.Config, s *trainer.Summary, isExample bool) {
	tune, model := invocation(), "--model "+quoted(s.Out)
	if c.LoRA.Enabled() {
		model = "--model " + quoted(c.Model) + " --adapter " + quoted(s.Out)
	}
	kernels := c.Kernels
	if len(s.Wrong) > 0 {
		kernels = "from:" + s.Out // without those that were taken off
	}
	train := fmt.Sprintf("%s --kernels %s%s%s %s --data FILE", tune, quoted(kernels), a.again.plugins, storage(c), model)
	if isExample {
		fmt.Fprintf(w, "\nTrain it further, or a model of your own:\n  %s\n", train)
		return
	}
	fmt.Fprintf(w, "\nLet it write, look at the run, train it further:\n  %s generate %s --prompt TEXT\n  %s report "+
		"%s\n  %s\n", tune, model, tune, quoted(s.Out), train)
}

// storage returns the flags of how a run keeps its weights and multiplies them, which decide about kernels and memory.
func storage(c trainer.Config) (flags string) {
	if c.Precision != models.Float32 && c.Precision != "" {
		flags += " --precision " + string(c.Precision)
	}
	if c.LoRA.BaseInt8 {
		flags += " --base-int8"
	}
	if c.LoRA.BaseNF4 {
		flags += " --base-nf4"
	}
	return flags
}

// quoted is a word for a shell.
func quoted(word string) string {
	switch {
	case runtime.GOOS == "windows":
		return quotedForWindows(word)
	case word != "" && !strings.ContainsAny(word, " \t'\"\\$&;()<>|*?[]#~`!{}"):
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// quotedForWindows is a word as programs there take it from their command line: within quotes, a backslash before a
// quote is another one's escape. What its shells replace, such as %X%, they replace within quotes, too.
func quotedForWindows(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\"'&|^<>()%!;,`$@{}") {
		return word
	}
	escaped := regexp.MustCompile(`(\\*)("|$)`).ReplaceAllStringFunc(word, func(s string) string {
		backslashes, quote := strings.TrimSuffix(s, `"`), strings.HasSuffix(s, `"`)
		if quote {
			return backslashes + backslashes + `\"`
		}
		return backslashes + backslashes
	})
	return `"` + escaped + `"`
}

// invocation is how to run this program again: by its name, by its path where no shell would find that, or with the go
// command where that has built it for one run only.
func invocation() string {
	exe, err := os.Executable()
	if err == nil && isGoRun(exe) {
		return "go run ./cmd/tune"
	}
	if typed := os.Args[0]; filepath.Base(typed) != typed && !isFound(exe) {
		return quoted(typed)
	}
	return "tune"
}

// isFound reports whether a shell finds an executable by this program's name.
func isFound(exe string) bool {
	found, err := exec.LookPath("tune")
	return err == nil && isSameFile(found, exe)
}

// isSameFile reports whether two paths lead to one file, which exists.
func isSameFile(path, other string) bool {
	a, err := os.Stat(path)
	b, err2 := os.Stat(other)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// isGoRun reports whether an executable is one of "go run": in the build cache, or in the
// temporary folder of a build.
func isGoRun(exe string) bool {
	for name := range strings.SplitSeq(filepath.ToSlash(filepath.Dir(exe)), "/") {
		if strings.HasPrefix(name, "go-build") {
			return true
		}
	}
	cache := os.Getenv("GOCACHE")
	return cache != "" && strings.HasPrefix(exe, filepath.Clean(cache)+string(filepath.Separator))
}
