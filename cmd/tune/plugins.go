package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/trainer/bench"
	"github.com/seed98097648/tune/trainer/placement"
)

const (
	kernelsEnv   = "TUNE_KERNELS"
	kernelsUsage = "which fused `KERNELS` to use: none; all (each that fits); auto (each that is measured to be worth " +
		"it here); names; auto,-name; or from:RUN, those that a run had, by its output folder, one of its checkpoints, " +
		"or its run.jsonl. $" + kernelsEnv + " sets another default"
)

// kernelFlags are the flags of a command that uses kernels.
type kernelFlags struct {
	kernels string
	plugins pluginFlags
	source  string // where the selection comes from, for errors
	fixed   bool   // $TUNE_KERNELS does not count
	verbose bool   // every site is shown
}

func (k *kernelFlags) add(f *pflag.FlagSet, fallback string) {
	f.StringVar(&k.kernels, "kernels", fallback, kernelsUsage)
	k.plugins.addCalls(f)
}

// addVerbose is for the commands that say in one line what came of the kernels.
func (k *kernelFlags) addVerbose(f *pflag.FlagSet) {
	f.BoolVar(&k.verbose, "kernels-verbose", false, "show which kernel each site got, or why none")
}

// placed writes which kernels went where.
func (k *kernelFlags) placed(r *core.Report) string {
	if k.verbose {
		return r.String()
	}
	return r.Brief("; --kernels-verbose says which, and why")
}

// measureLimit is how long a command measures kernels before it does what it is for.
const measureLimit = 3 * time.Second

// resolve fills in $TUNE_KERNELS and checks the form of the selection, and that there is the
// run that it names.
func (k *kernelFlags) resolve(c *Command) error {
	k.source = cmp.Or(k.source, "--kernels")
	if v := os.Getenv(kernelsEnv); v != "" && !c.Flags.Changed("kernels") && !k.fixed {
		k.kernels, k.source = v, "$"+kernelsEnv
	}
	sel, err := core.ParseSelection(k.kernels)
	if err != nil {
		return c.usagef("%s: %w", k.source, err)
	}
	if own, linked := unlinked(k.kernels); linked {
		return c.usagef("%s is %s: only tune bench takes this program's own kernels without their processes, as linked:; "+
			"use %s", k.source, k.kernels, cmp.Or(own, "their names"))
	}
	if sel.From == "" || k.fixed {
		return nil
	}
	if _, err := placement.Read(sel.From); err != nil {
		return fmt.Errorf("%s: %w", k.source, err)
	}
	return nil
}

// unlinked returns a selection of the same kernels in processes of their own, if it has any without.
func unlinked(selection string) (own string, linked bool) {
	words := strings.Split(selection, ",")
	for i, word := range words {
		if name, ok := strings.CutPrefix(strings.TrimSpace(word), bench.LinkedPrefix); ok {
			words[i], linked = name, true
		}
	}
	return strings.Join(words, ","), linked
}

// blame names the source of the selection in an error that is the selection's fault.
func (k *kernelFlags) blame(err error) error {
	if errors.Is(err, core.ErrNoSite) || errors.Is(err, core.ErrConflict) {
		return fmt.Errorf("%s: %w", k.source, err)
	}
	return err
}

// checkNames reports a name that nobody has, or a selected one that cannot be used, before
// a model is run for nothing. Everything else about a selection depends on the model.
func (k *kernelFlags) checkNames(reg *core.Registry) error {
	sel, err := core.ParseSelection(k.kernels)
	if err != nil {
		return err
	}
	if name, err := reg.CheckNames(sel); err != nil {
		return fmt.Errorf("%s: %w", k.source, k.plugins.missing(name, err))
	}
	return nil
}

// open finds the kernels, none if the selection is that. The caller closes the registry.
func (k *kernelFlags) open(ctx context.Context, a *app, o transport.Options) (*core.Registry, error) {
	if k.kernels == "none" {
		return core.NewRegistry(), nil
	}
	reg, err := k.plugins.scan(ctx, a, o)
	if err != nil {
		return nil, err
	}
	broken := slices.DeleteFunc(newListing(reg, k.plugins.dir).Broken, func(b brokenFile) bool {
		// That a lock leaves out what is built in, "kernels list" says.
		return isData(b.Path) || k.plugins.locked != nil && strings.HasPrefix(b.Path, core.BuiltIn)
	})
	for _, g := range alike(broken) {
		if len(g) == 1 {
			a.note("a plugin cannot be used: %s", g[0].Reason)
		} else {
			a.note("%s%s cannot be used: %s", short(g[0].Path), andMore(g), g[0].Reason)
		}
	}
	if len(reg.Kernels()) == 0 {
		a.note("%v", k.plugins.none())
	}
	if err := k.checkNames(reg); err != nil {
		return nil, errors.Join(err, reg.Close())
	}
	return reg, nil
}

// isData reports whether a file in a plugin folder cannot be meant as a plugin, such as a
// README: "kernels list" has it, a run need not warn of it.
func isData(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && !core.IsExecutable(path, info.Mode())
}

// note writes a line that is not a result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, printable(flagged(fmt.Sprintf("tune: "+format, args...))))
}

// logger writes what happens in the middle of a run as notes.
func (a *app) logger() *slog.Logger { return slog.New(newNoteHandler(a.stderr)) }

// newMemory makes the memory for tensors, as much as the machine has. Plugins read it
// without a copy.
func newMemory() (transport.Memory, error) { return transport.NewMemory("tensors", 0) }

// needLess names the flags that help when there is no memory.
func needLess(err error) error {
	if !errors.Is(err, transport.ErrNoRoom) && !errors.Is(err, syscall.ENOMEM) {
		return err
	}
	return fmt.Errorf("%w\na run takes less memory with --gradient-checkpointing, a smaller --batch (and --grad-accum "+
		"to make up for it), a shorter --seq, "+
		"or --lora-rank 8 --base-int8; \"tune plan\" with the same flags says how much", err)
}
