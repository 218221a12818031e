// Package configfile reads and writes the files of --config: the flags of tune train in YAML. A key is the name of a
// flag with underscores for dashes, or the name that LLaMA-Factory has for it. The package knows the flags by their
// names, and does not import what they are for, so that its fuzz test is linked in seconds.
package configfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/seed98097648/tune/internal/nearest"
)

// Command is train, as far as a file is about it.
type Command struct {
	Flags *pflag.FlagSet // all of train's: some are set or looked at whatever the file says
	// Kind says what a flag takes, such as a whole number; it is empty for text, and for true or false.
	Kind      func(flag *pflag.Flag) string
	Reporters []string // the words of --report-to
}

// Result is what came of a file, besides the flags.
type Result struct {
	Notes  []string // lines about keys that mean something else here, or nothing
	Cutoff bool     // the file says how long a row is, as cutoff_len
}

// Read sets the flags that the text of a file names, but for those that are given on the command line. Errors start
// with the file's name.
func (c Command) Read(file string, text []byte, given map[string]bool) (Result, error) {
	s := settings{file: file, command: c, given: given, from: map[string]string{}}
	if err := s.read(text); err != nil {
		return Result{}, err
	}
	r := Result{s.lines, s.from["seq"] == "cutoff_len" && !given["seq"]}
	if t := c.Flags.Lookup("template"); s.from["template"] != "" && spacedTemplates[t.Value.String()] != "" {
		r.Notes = append(r.Notes, "template: "+spacedTemplates[t.Value.String()])
	}
	if s.ignored != nil {
		r.Notes = append(r.Notes, "of no effect here: "+strings.Join(s.ignored, ", "))
	}
	return r, nil
}

// settings carries the keys of one file over to the flags of a command.
type settings struct {
	file    string
	command Command
	given   map[string]bool   // flags on the command line
	from    map[string]string // the key that each flag was set by
	method  string            // finetuning_type
	values  map[string]string // of every key that says something
	ignored []string
	lines   []string // what is otherwise here
}

func (s *settings) read(text []byte) error {
	s.values = map[string]string{}
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", s.file, errSetsNothing)
	} else if err != nil {
		return fmt.Errorf("%s: %s", s.file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one YAML document; keep one", s.file)
	}
	top := doc.Content[0]
	if len(top.Content) == 0 && (top.Kind == yaml.MappingNode || top.Tag == "!!null") {
		return fmt.Errorf("%s: %w", s.file, errSetsNothing)
	}
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: want lines of the form key: value", s.file, top.Line)
	}
	var errs []error
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if err := s.set(key.Value, value); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %w", s.file, key.Line, key.Value, err))
		}
	}
	if errs == nil {
		errs = append(errs, s.settle(), s.setMethod())
	}
	return errors.Join(errs...)
}

var errSetsNothing = errors.New("it sets nothing; leave --config out, or write a line such as model: DIR")

// setMethod does what finetuning_type says, once all other keys are known. Here, a rank
// or an adapter is what makes a run one of LoRA.
func (s *settings) setMethod() error {
	if s.given["lora-rank"] || s.given["adapter"] {
		return nil
	}
	flags := s.command.Flags
	adapts := flags.Lookup("lora-rank").Value.String() != "0" || flags.Lookup("adapter").Value.String() != ""
	switch {
	case s.method == methodLoRA && !adapts:
		return flags.Set("lora-rank", theirRank)
	case s.method == methodFreeze && !adapts && s.from["train-layers"] == "" && !s.given["train-layers"]:
		return flags.Set("train-layers", theirLayers)
	case (s.method == methodFull || s.method == methodFreeze) && adapts:
		return fmt.Errorf("%s: finetuning_type is %s, but %s is given too: leave one of them out",
			s.file, s.method, cmp.Or(s.from["lora-rank"], s.from["adapter"]))
	}
	return nil
}

// set carries one key over.
func (s *settings) set(key string, node *yaml.Node) error {
	if key == "lr_scheduler_kwargs" || key == "template_args" {
		node = pairs(node)
	}
	value, null, err := scalar(node)
	if err != nil {
		return err
	}
	if !null {
		s.values[key] = value
	}
	if only, ok := fixed[key]; ok {
		if !null && !slices.Contains(only, value) {
			return fmt.Errorf("%q is not supported; %s", value, cmp.Or(remedies[key],
				"tune can do "+strings.Join(only, ", ")+" here"))
		}
		if key == "finetuning_type" {
			s.method = value
		}
		return nil
	}
	if _, ok := differs[key]; ok || slices.Contains(together, key) {
		return nil
	}
	if slices.Contains(withoutMeaning, key) {
		s.ignored = append(s.ignored, key)
		return nil
	}
	name := cmp.Or(byValue[key][value], theirNames[key], strings.ReplaceAll(key, "_", "-"))
	if n, err := strconv.ParseFloat(value, 64); err == nil && n > 0 && n < 1 && ofSteps[key] != "" {
		if name = ofSteps[key]; name != "warmup-ratio" {
			return fmt.Errorf("%s is a share of all steps: say how many steps, or with %s how many epochs", value,
				strings.ReplaceAll(name, "-", "_"))
		}
	}
	flag := s.command.Flags.Lookup(name)
	if flag == nil || slices.Contains(notInFile, name) {
		switch sentence := ForeignSentence(key); {
		case sentence == "":
			if name, ok := nearest.Name(key, s.keys()); ok {
				return fmt.Errorf("unknown key; did you mean %s?", name)
			}
			return errors.New("unknown key")
		case null || off(value):
			return nil // it asks for nothing
		default:
			return errors.New(sentence)
		}
	}
	if first, twice := s.from[name]; twice {
		return fmt.Errorf("%s has set it already", first)
	}
	s.from[name] = key
	if null || s.given[name] {
		return nil
	}
	return s.assign(flag, key, node, value)
}

// assign gives a flag the value of a key.
func (s *settings) assign(flag *pflag.Flag, key string, node *yaml.Node, value string) error {
	theirs := theirValues[key]
	for _, value := range each(flag, node, value) {
		ours, known := theirs[value]
		if !known {
			ours = value
		}
		// Where their words for a truth are not ours, no others are taken: 1 would mean the opposite.
		strange := !known && theirs != nil && flag.Value.Type() == "bool"
		err := s.command.Flags.Set(flag.Name, ours)
		if err != nil && flag.Value.Type() == "string" {
			return errors.Unwrap(err) // which says what there should be
		}
		if strange || err != nil {
			return fmt.Errorf("%q does not fit; it must be %s", value, s.kindOf(flag, key))
		}
	}
	return trimItems(flag, node)
}

// trimItems takes the spaces around the commas of a text off, as LLaMA-Factory does. The items of a list are as they
// are.
func trimItems(flag *pflag.Flag, node *yaml.Node) error {
	list, ok := flag.Value.(pflag.SliceValue)
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if !ok || node.Kind == yaml.SequenceNode || len(list.GetSlice()) < 2 {
		return nil
	}
	items := list.GetSlice()
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
	}
	return list.Replace(items)
}

// kindOf says what a key takes.
func (s *settings) kindOf(flag *pflag.Flag, key string) string {
	kind := s.command.Kind(flag)
	if values := theirValues[key]; values != nil && (kind == "" || flag.Value.Type() == "bool") {
		return strings.Join(slices.Sorted(maps.Keys(values)), " or ")
	}
	return cmp.Or(kind, "true or false")
}

// each returns what a flag is set to, one after another: the items of a list for a flag
// that may be given again, else the one value.
func each(flag *pflag.Flag, node *yaml.Node, value string) []string {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if _, ok := flag.Value.(pflag.SliceValue); !ok || node.Kind != yaml.SequenceNode {
		return []string{value}
	}
	var items []string
	for _, item := range node.Content {
		items = append(items, item.Value)
	}
	return items
}

// keys lists everything that a file may say.
func (s *settings) keys() []string {
	var all []string
	s.command.Flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInFile, f.Name) {
			all = append(all, strings.ReplaceAll(f.Name, "-", "_"))
		}
	})
	return append(all, Theirs()...)
}

// Theirs returns the keys of LLaMA-Factory that are known, but for those that are names of our flags, too. One of
// these is there all the same: report_to, which says more in its files than in ours.
func Theirs() []string {
	keys := slices.Collect(maps.Keys(theirNames))
	keys = slices.AppendSeq(keys, maps.Keys(fixed))
	keys = slices.AppendSeq(keys, maps.Keys(differs))
	return slices.Concat(keys, withoutMeaning, together)
}

// scalar returns a value as a flag takes it: a list is joined by commas, and the words
// that YAML has for truth are true and false.
func scalar(n *yaml.Node) (text string, null bool, err error) {
	switch n.Kind {
	case yaml.AliasNode:
		return scalar(n.Alias)
	case yaml.SequenceNode:
		var parts []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return "", false, errors.New("a list here holds single values only")
			}
			parts = append(parts, item.Value)
		}
		return strings.Join(parts, ","), false, nil
	case yaml.MappingNode:
		return "", false, errors.New("want a single value, not keys of its own")
	}
	if n.Tag == "!!null" {
		return "", true, nil
	}
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
		switch strings.ToLower(n.Value) {
		case "true", "yes", "on":
			return "true", false, nil
		case "false", "no", "off":
			return "false", false, nil
		}
	}
	return n.Value, false, nil
}

// Group is a set of flags that belong together.
type Group struct {
	Title string
	Flags *pflag.FlagSet
}

// Write prints what every flag comes to, as a file that Read reads, with the titles of the groups as comments.
func Write(w io.Writer, groups []Group) error {
	var doc yaml.Node
	doc.Kind = yaml.MappingNode
	for _, g := range groups {
		title := g.Title
		g.Flags.VisitAll(func(flag *pflag.Flag) {
			if slices.Contains(notInFile, flag.Name) || slices.Contains(notWritten, flag.Name) {
				return
			}
			key := &yaml.Node{Kind: yaml.ScalarNode, Value: strings.ReplaceAll(flag.Name, "-", "_"), HeadComment: title}
			doc.Content = append(doc.Content, key, valueNode(flag.Value))
			title = ""
		})
	}
	text, err := yaml.Marshal(&doc)
	if err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	_, err = w.Write(text)
	return err
}

func valueNode(v pflag.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	if list, ok := v.(pflag.SliceValue); ok {
		n = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range list.GetSlice() {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: item})
		}
		return n
	}
	if v.Type() == "string" {
		n.Tag = "!!str" // so that a text that looks like a number is quoted
	}
	return n
}
