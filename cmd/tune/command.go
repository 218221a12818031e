package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/cmd/tune/internal/configfile"
	"github.com/seed98097648/tune/internal/nearest"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/optim"
)

// Command is a verb.
type Command struct {
	Name     string // such as "kernels list"
	Usage    string // what follows the name on the command line
	Args     bool   // arguments may be among it, besides flags
	Short    string // one line
	Long     string // what it does, wrapped at 80 columns
	Examples string // lines of shell
	Flags    *pflag.FlagSet
	Groups   []Group // the flags again, in the order of the help
	Run      func(ctx context.Context, args []string) error
}

// Group is a set of flags that belong together.
type Group struct {
	Title string
	Flags *pflag.FlagSet
}

// Group starts a group of flags, which become flags of the command with finish.
func (c *Command) Group(title string) *pflag.FlagSet {
	f := pflag.NewFlagSet(title, pflag.ContinueOnError)
	f.SortFlags = false
	c.Groups = append(c.Groups, Group{title, f})
	return f
}

// finish gathers the groups in Flags, and says what the command does.
func (c *Command) finish(run func(ctx context.Context, args []string) error) *Command {
	c.Run = run
	c.Flags = pflag.NewFlagSet("tune "+c.Name, pflag.ContinueOnError)
	c.Flags.SortFlags = false
	c.Flags.Usage = func() {} // dispatch prints it
	for _, g := range c.Groups {
		c.Flags.AddFlagSet(g.Flags)
	}
	return c
}

// usageError is a mistake on the command line.
type usageError struct {
	err  error
	help string // the command that would have helped
}

// Error implements error.
func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *usageError) Unwrap() error { return e.err }

// usagef returns a usageError.
func (c *Command) usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...), "tune " + c.Name + " --help"}
}

// misuse returns a usageError for an error, and nil for none.
func (c *Command) misuse(err error) error {
	if err == nil {
		return nil
	}
	return c.usagef("%w", err)
}

// dispatch finds the verb and runs it. Flags without a verb belong to train.
func (a *app) dispatch(ctx context.Context, args []string) error {
	commands := a.commands()
	if len(args) > 0 {
		switch args[0] {
		case "help":
			return a.help(commands, args[1:])
		case "-h", "--help":
			return a.help(commands, nil)
		case "--version":
			args[0] = "version"
		}
	}
	if len(args) == 2 && slices.Contains([]string{"-h", "--help"}, args[1]) && below(commands, args[0]) != nil {
		return a.help(commands, args[:1])
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		args = append([]string{"train"}, args...)
	}
	c, rest, err := find(commands, args)
	if err != nil {
		return err
	}
	if c.Name == "train" {
		a.launch = distributed.Detect()
	}
	err = c.Flags.Parse(joinRecompute(c, rest))
	if errors.Is(err, pflag.ErrHelp) {
		a.printHelp(c)
		return nil
	}
	if err != nil {
		return c.flagError(err)
	}
	if err := c.noEmptyNames(); err != nil {
		return err
	}
	if err := c.noArguments(c.Flags.Args()); err != nil && !c.Args {
		return err
	}
	return c.Run(ctx, c.Flags.Args())
}

// find returns the command whose name starts the arguments, and the arguments after it.
func find(commands []*Command, args []string) (*Command, []string, error) {
	var verbs []string
	for _, c := range commands {
		words := strings.Fields(c.Name)
		if len(args) >= len(words) && slices.Equal(words, args[:len(words)]) {
			return c, args[len(words):], nil
		}
		if words[0] == args[0] {
			verbs = append(verbs, words[1])
		}
	}
	if verbs == nil {
		return nil, nil, &usageError{fmt.Errorf("unknown command %q%s", args[0], nearestCommand(commands, args[0])),
			"tune help"}
	}
	help := "tune help " + args[0]
	if len(args) == 1 || strings.HasPrefix(args[1], "-") {
		return nil, nil, &usageError{fmt.Errorf("%s needs one of: %s", args[0], strings.Join(verbs, ", ")), help}
	}
	return nil, nil, &usageError{fmt.Errorf("unknown command %q%s",
		args[0]+" "+args[1], didYouMean(args[1], verbs, func(verb string) string {
			return strconv.Quote(args[0] + " " + verb)
		})), help}
}

// nearestCommand suggests the command with the word that is nearest, if any is near.
func nearestCommand(commands []*Command, typed string) string {
	names := map[string]string{}
	var words []string
	for _, c := range commands {
		for w := range strings.FieldsSeq(c.Name) {
			if names[w] == "" {
				names[w] = c.Name
				words = append(words, w)
			}
		}
	}
	return didYouMean(typed, words, func(word string) string { return strconv.Quote(names[word]) })
}

// namesOfFiles are flags that name files. An empty name is a variable of the shell that is not set
// rather than a wish to leave the flag out.
var namesOfFiles = []string{"model", "data", "eval-data", "adapter", "config", "dataset-dir", "prompt-file", "prompts",
	"out", "plugin-dir"}

func (c *Command) noEmptyNames() error {
	for _, name := range namesOfFiles {
		f := c.Flags.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		if slices.Contains(valuesOf(f), "") {
			return c.usagef("--%s is empty: name a file or folder, or leave the flag out", name)
		}
	}
	return nil
}

// value is that of a flag whose type pflag does not have; kind is one of valueKinds.
type value struct {
	kind string
	get  func() string
	set  func(text string) error
}

var _ pflag.Value = value{}

// String implements pflag.Value.
func (v value) String() string { return v.get() }

// Set implements pflag.Value.
func (v value) Set(text string) error { return v.set(text) }

// Type implements pflag.Value.
func (v value) Type() string { return v.kind }

// zeroable is the flag of a number whose zero value stands for its default, so that 0 itself is stored as -1.
func zeroable[N int64 | float64](kind string, n *N, parse func(text string) (N, error)) value {
	return value{kind, func() string {
		switch {
		case *n < 0:
			return "0"
		case *n == 0:
			return ""
		}
		return fmt.Sprint(*n)
	}, func(text string) error {
		x, err := parse(text)
		if err != nil {
			return err
		}
		if *n = x; x == 0 {
			*n = -1
		}
		return nil
	}}
}

// valuesOf returns all values of a flag, of which some have several.
func valuesOf(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// flagError turns an error of pflag into one that says what to do.
func (c *Command) flagError(err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid) && valueKinds[invalid.GetFlag().Value.Type()] != "":
		f := invalid.GetFlag()
		if _, whole := new(big.Int).SetString(invalid.GetValue(), 10); whole && f.Value.Type() == "int" {
			return c.usagef("--%s is %s: that is too large a number", f.Name, invalid.GetValue())
		}
		return c.usagef("--%s is %q; it must be %s", f.Name, invalid.GetValue(), valueKinds[f.Value.Type()])
	case !errors.As(err, &unknown):
		return c.misuse(err)
	}
	name, dashes := unknown.GetSpecifiedName(), "--"
	asFlag := func(flag string) string { return "--" + flag }
	hint := didYouMean(name, c.flagNames(), asFlag)
	if ours := configfile.Ours(strings.ReplaceAll(name, "-", "_")); c.Flags.Lookup(ours) != nil {
		hint = didYouMean(ours, []string{ours}, asFlag)
	}
	if unknown.GetSpecifiedShortnames() != "" {
		dashes, hint = "-", "; flags have two dashes"+hint
	}
	return c.usagef("unknown flag %s%s%s", dashes, name, hint)
}

// valueKinds says what the types of flags take. The texts of the strconv package, which
// pflag passes on, are for programmers.
var valueKinds = map[string]string{
	"int":       "a whole number",
	"uint64":    "a whole number, not negative",
	"float64":   "a number",
	"duration":  "a time with its unit, such as 90s or 1h30m",
	"numbers":   "numbers with commas between, such as 0.7,0.3",
	"size":      "a size such as 512MiB or 2GiB",
	"limit":     "a size such as 512MiB or 6GiB, or auto",
	"decay":     "a number from 0 to below 1",
	"optimizer": "one of " + strings.Join(optim.Kinds(), ", ") + ", or transformers' name for one",
}

func (c *Command) flagNames() []string {
	names := []string{"help"}
	c.Flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// noArguments is the check of a command that takes flags only.
func (c *Command) noArguments(args []string) error {
	if len(args) == 0 {
		return nil
	}
	remedy := fmt.Sprintf("tune %s takes flags only", c.Name)
	c.Flags.Visit(func(f *pflag.Flag) { // a flag that may do without a value takes it with = only
		if f.NoOptDefVal != "" && f.Value.Type() != "bool" && f.Value.String() == f.NoOptDefVal {
			remedy = fmt.Sprintf("write --%s=%s", f.Name, args[0])
		}
	})
	return c.usagef("unexpected argument %q; %s", args[0], remedy)
}

// oneOf reports a value of a flag that is none of the known ones.
func (c *Command) oneOf(flag, value string, known ...string) error {
	return c.misuse(nearest.OneOf("--"+flag, value, known...))
}

// notStdout refuses -, which some flags have for standard output, of those that name a file or folder: it would
// become one of that name.
func (c *Command) notStdout(kind string, flags ...string) error {
	for _, flag := range flags {
		if f := c.Flags.Lookup(flag); f != nil && f.Value.String() == "-" { // plan checks as train does
			return c.usagef("--%s is -, but this cannot go to standard output: name a %s, or ./- for one that is called -",
				flag, kind)
		}
	}
	return nil
}

// inUTF8 refuses what is not, of flags whose value is a text for the model.
func (c *Command) inUTF8(flags ...string) error {
	for _, flag := range flags {
		if f := c.Flags.Lookup(flag); f != nil && !utf8.ValidString(f.Value.String()) {
			return c.usagef("--%s is not UTF-8: which encoding does the terminal have, or the file that it comes from?", flag)
		}
	}
	return nil
}

// didYouMean suggests the known name that was likely meant, formatted by show, or nothing
// if there is none.
func didYouMean(typed string, known []string, show func(name string) string) string {
	name, ok := nearest.Name(typed, known)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", show(name))
}
