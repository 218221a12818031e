package main

import (
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/cmd/tune/internal/configfile"
	"github.com/seed98097648/tune/internal/os/plainfile"
)

// runFile is the configuration of a run in the folder that it saves.
const runFile = "tune.yaml"

// configFile reads --config: a YAML file of a command's flags; see the package configfile. Flags on the command line
// win over the file.
type configFile struct {
	path  string
	print bool

	note       func(format string, args ...any)
	cutoff     bool            // the file says how long a row is, as cutoff_len
	given      map[string]bool // flags of the command line
	overridden []string        // by these; see overridden
}

func (f *configFile) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.path, "config", "", "a YAML `FILE` of flags, by their names with underscores or by "+
		"LLaMA-Factory's; flags given here win over it")
	flags.BoolVar(&f.print, "print-config", false, "print what every flag comes to, as a --config file, and stop")
}

// apply sets the flags that the file names and the command line does not. Notes are
// about keys without a meaning here.
func (f *configFile) apply(c *Command, note func(format string, args ...any)) error {
	given := map[string]bool{}
	c.Flags.Visit(func(flag *pflag.Flag) { given[flag.Name] = true })
	f.given, f.overridden = maps.Clone(given), overridden(given)
	if f.path == "" {
		return nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return c.usagef("--config: %w", plainfile.Explain(err))
	}
	for _, name := range f.overridden {
		given[name] = true
	}
	command := configfile.Command{Flags: c.Flags, Kind: kindOf, Reporters: slices.Collect(maps.Keys(reporters))}
	result, err := command.Read(f.path, text, given)
	if err != nil {
		return c.misuse(err)
	}
	f.note, f.cutoff = note, result.Cutoff
	for _, line := range result.Notes {
		note("%s: %s", f.path, line)
	}
	return nil
}

// kindOf says what a flag takes, for a file that has something else.
func kindOf(flag *pflag.Flag) string {
	if flag.Name == recomputeFlag {
		return recomputeKinds
	}
	return valueKinds[flag.Value.Type()]
}

// write prints what every flag comes to, in the groups of the help.
func (f *configFile) write(w io.Writer, c *Command) error {
	var groups []configfile.Group
	for _, g := range c.Groups {
		groups = append(groups, configfile.Group(g))
	}
	return configfile.Write(w, groups)
}

// before are, for flags that say something in another way, those that come before them, or switch off what they are
// about.
var before = map[string][]string{
	"epochs":       {"steps"},
	"warmup-ratio": {"warmup"},
	"save-every":   {"save-epochs"},
	"eval-every":   {"eval-epochs", "no-eval"},
	"eval-epochs":  {"no-eval"},
}

// overridden returns the flags that are not given on the command line, and would come before one that is: what a file
// or a checkpoint says by them does not count.
func overridden(given map[string]bool) (names []string) {
	for flag, others := range before {
		for _, other := range others {
			if given[flag] && !given[other] {
				names = append(names, other)
			}
		}
	}
	return names
}
