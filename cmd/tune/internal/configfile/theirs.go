package configfile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed98097648/tune/trainer/preference"
)

// A file with a key of LLaMA-Factory's means what it means there, also in what it leaves
// out; or a line says what differs.

// theirDefaults is what LLaMA-Factory has where its file says nothing and tune by itself has
// something else, by our flags: its own defaults and those of transformers' Trainer.
var theirDefaults = []struct{ flag, value string }{
	{"batch", "8"}, {"epochs", "3"}, {"lr", "5e-05"}, {"schedule", "linear"}, {"weight-decay", "0"}, {"seed", "42"},
	{"seq", "2048"},
	{"no-packing", "true"}, {"cut-long", "true"}, {"eval-size", "0"}, {"no-eval", "true"}, {"save-every", "500"},
	{"keep", "0"},
}

// theirData is where LLaMA-Factory looks for data sets unless dataset_dir says where.
const theirData = "data"

// differs are keys of LLaMA-Factory that ask for something which is done in another way
// here, with the line that says so.
var differs = map[string]string{
	"fp16": inFloat32, "pure_bf16": inFloat32,
	"use_kernels": ownKernels, "kernel_name": ownKernels, "enable_liger_kernel": ownKernels,
	"use_liger_kernel": ownKernels, "use_unsloth": ownKernels,
	"pissa_iter":    "weights are taken apart until another iteration changes nothing",
	"pissa_convert": "the adapter is always saved for the weights as the model's files have them",
	"deepspeed": "mpirun or srun starts several processes or machines; --shard-optimizer shares what the optimizer " +
		"remembers among them",
	"ignore_data_skip": "a run that is resumed goes on with the rows that it has not seen",
	"use_swanlab":      ownReports,
}

const (
	inFloat32  = "tune computes in float32, or with bf16 in part in bfloat16, and saves in the dtype of the model's files"
	ownKernels = "fused kernels are tune's own plugins, chosen with the key kernels"
	ownReports = "the run is told in its output folder, and shown by tune report and serve; report_to takes " +
		"tensorboard, trackio and wandb too"
)

// together are keys that mean something only with others; see settle.
var together = []string{"report_to", "logging_dir", "greater_is_better"}

// isTheirs reports whether a key is LLaMA-Factory's and not ours. One that has no effect here
// does not change what the others mean.
func isTheirs(key string) bool {
	_, isFixed := fixed[key]
	_, isDifferent := differs[key]
	return theirNames[key] != "" || isFixed || isDifferent || key == "logging_dir"
}

// off reports whether a value asks for nothing.
func off(value string) bool {
	return slices.Contains([]string{"", "false", "none", "None", "no"}, value)
}

// settle does what depends on several keys, once all of them are known. The built-in
// example, which has no model to name, keeps its own defaults.
func (s *settings) settle() error {
	theirs := slices.ContainsFunc(slices.Collect(maps.Keys(s.values)), isTheirs)
	if err := s.report(theirs); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	if !theirs || s.command.Flags.Lookup("model").Value.String() == "" {
		return nil
	}
	for _, set := range []func() error{s.pack, s.evaluate, s.score, s.save, s.optimize, s.assume, s.share} {
		if err := set(); err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
	}
	s.tell()
	return nil
}

// put sets a flag that neither the command line nor the file gives. It does not count as
// given, as no default does.
func (s *settings) put(flag, value string) (bool, error) {
	if s.given[flag] || s.from[flag] != "" {
		return false, nil
	}
	return true, s.command.Flags.Lookup(flag).Value.Set(value)
}

// pack says what LLaMA-Factory's ways of packing are not, and does not sort rows that are all full, which changes
// nothing there.
func (s *settings) pack() error {
	neat := s.values["neat_packing"] == "true"
	switch packing := s.values["packing"]; {
	case packing == "true" && !neat:
		s.say("packing", "examples that share a row never see each other, as with neat_packing there")
	case packing == "" && neat:
		s.values["packing"] = "true"
	case packing == "" && s.values["stage"] == "pt":
		s.say("stage pt", "each text has a row of its own, and is cut at its end, unless packing is true; newer versions "+
			"of LLaMA-Factory pack in this stage by themselves")
	}
	key, group := s.from["group-by-length"], s.command.Flags.Lookup("group-by-length").Value
	unpacked := s.command.Flags.Lookup("no-packing").Value.String() == "true" // on the command line, too
	if s.values["packing"] != "true" || unpacked || key == "" || group.String() != "true" {
		return nil
	}
	s.say(key, "packed rows are full, and not sorted by their lengths")
	return group.Set("false")
}

// evaluate does what eval_strategy, eval_steps and do_eval say together. Without a strategy,
// do_eval is one evaluation, after training.
func (s *settings) evaluate() error {
	key, every := "eval_strategy", cmp.Or(s.values["eval_steps"], s.values["logging_steps"], "500")
	if s.values["eval_strategy"] == "epoch" {
		if _, err := s.put("eval-epochs", "1"); err != nil {
			return err
		}
		s.say("eval_strategy", "the model is evaluated before the first step, too, and eval_loss is the mean over all "+
			"tokens")
		return nil
	}
	if s.values["eval_strategy"] != "steps" {
		if s.values["do_eval"] != "true" || s.given["no-eval"] || s.from["no-eval"] == "no_eval" {
			return nil
		}
		key, every = "do_eval", strconv.Itoa(math.MaxInt32) // no run has so many steps
	}
	const nothing = "there is nothing to evaluate on without val_size or eval_dataset"
	if !s.holdsOut() {
		s.say(key, nothing)
		if key == "do_eval" {
			return nil
		}
	}
	s.say(key, "the model is evaluated before the first step, too, and eval_loss is the mean over all tokens")
	if key == "do_eval" {
		s.from["no-eval"] = key
		if s.from["eval-every"] == "eval_steps" { // which is of a strategy
			delete(s.from, "eval-every")
		}
		if err := s.command.Flags.Lookup("no-eval").Value.Set("false"); err != nil {
			return err
		}
	}
	_, err := s.put("eval-every", every)
	return err
}

// score does what metric_for_best_model says beside compute_accuracy. greater_is_better can only say what is so.
func (s *settings) score() error {
	if s.values["compute_accuracy"] == "true" {
		s.say("compute_accuracy", "each token counts the same, whatever answer it is in")
	}
	best := s.command.Flags.Lookup("best-metric").Value.String()
	loss := best == "" || best == bestLoss
	if !loss {
		if _, err := s.put("metric", best); err != nil {
			return err
		}
	}
	if greater := s.values["greater_is_better"]; greater != "" && (greater == "true") == loss {
		return fmt.Errorf("greater_is_better is %s, but %s is better the %s it is", greater, cmp.Or(best, bestLoss),
			map[bool]string{true: "lower", false: "higher"}[loss])
	}
	return nil
}

// holdsOut reports whether there is something to evaluate on.
func (s *settings) holdsOut() bool {
	for flag, none := range map[string][]string{"eval-data": {"", "[]"}, "eval-size": {"", "0"}} {
		value := s.command.Flags.Lookup(flag).Value.String()
		if (s.given[flag] || s.from[flag] != "") && !slices.Contains(none, value) {
			return true
		}
	}
	return false
}

// report does what report_to says, which is a key of ours, too. In a file of theirs, what is not known is no error,
// and wandb is its offline form.
func (s *settings) report(theirs bool) error {
	for to := range strings.SplitSeq(s.values["report_to"], ",") {
		to = strings.TrimSpace(to)
		name, _, _ := strings.Cut(to, "=")
		known := slices.Contains(s.command.Reporters, name)
		switch {
		case off(to):
			continue
		case to == "wandb":
			s.say("report_to wandb", "the run is written offline, as wandb-offline, and uploaded by wandb sync")
			to = "wandb-offline"
		case to == "tensorboard" && s.values["logging_dir"] != "": // which is the whole name
			if _, err := s.put("tensorboard", s.values["logging_dir"]); err != nil {
				return err
			}
			continue
		case theirs && !known:
			s.say("report_to "+to, ownReports)
			continue
		}
		if _, err := s.put("report-to", to); err != nil {
			return err
		}
	}
	return nil
}

// save does what save_strategy says.
func (s *settings) save() error {
	if s.values["save_strategy"] == "epoch" {
		if _, err := s.put("save-epochs", "1"); err != nil {
			return err
		}
	}
	if !off(s.values["save_strategy"]) || s.values["save_strategy"] == "" || s.given["save-every"] {
		return nil
	}
	s.from["save-every"] = "save_strategy"
	return s.command.Flags.Lookup("save-every").Value.Set("0")
}

// optimize does what use_muon says, which comes before optim, and takes the momentum of torch.optim.SGD.
func (s *settings) optimize() error {
	if s.values["use_muon"] == "true" && !s.given["optim"] {
		s.from["optim"] = "use_muon"
		return s.command.Flags.Lookup("optim").Value.Set("muon")
	}
	if s.from["optim"] != "" && s.values["optim"] == "sgd" {
		_, err := s.put("momentum", "0")
		return err
	}
	return nil
}

// assume takes LLaMA-Factory's defaults, and says which.
func (s *settings) assume() error {
	var taken []string
	take := func(flag, value string) error {
		done, err := s.put(flag, value)
		if done {
			taken = append(taken, strings.ReplaceAll(flag, "-", "_")+" "+value)
		}
		return err
	}
	_, names := s.values["model_name_or_path"]
	if s.values["finetuning_type"] == "" && s.values["lora_rank"] == "" && (names || s.values["stage"] != "") &&
		!s.given["lora-rank"] {
		s.method = methodLoRA
		taken = append(taken, "finetuning_type "+methodLoRA)
	}
	for _, d := range theirDefaults {
		switch {
		case d.flag == "no-packing" && s.values["packing"] == "true": // by neat_packing
		// there, packed texts go on in the next row
		case d.flag == "cut-long" && s.command.Flags.Lookup("no-packing").Value.String() == "false":
		// which come before it
		case d.flag == "epochs" && s.from["steps"] != "" && !off(s.values["max_steps"]) && s.values["max_steps"] != "-1":
		default:
			if err := take(d.flag, d.value); err != nil {
				return err
			}
		}
	}
	if _, err := os.Stat(filepath.Join(theirData, "dataset_info.json")); err == nil && s.values["dataset"] != "" {
		if err := take("dataset-dir", theirData); err != nil {
			return err
		}
	}
	// A run that goes on from a checkpoint has there what the file leaves out.
	if taken != nil && s.command.Flags.Lookup("resume").Value.String() == "" {
		s.lines = append(s.lines, "what it leaves out is as in LLaMA-Factory: "+strings.Join(taken, ", "))
	}
	return nil
}

// share makes a row of a pair twice as long as LLaMA-Factory's cutoff_len, which is that of each answer.
func (s *settings) share() error {
	seq, stage := s.command.Flags.Lookup("seq"), s.command.Flags.Lookup("stage").Value.String()
	if s.given["seq"] || s.from["seq"] == "seq" || !(preference.Config{Stage: stage}).Enabled() {
		return nil
	}
	n, err := strconv.Atoi(seq.Value.String())
	if err != nil {
		return err
	}
	s.say("cutoff_len", "two answers share a row, which has twice as many tokens")
	return seq.Value.Set(strconv.Itoa(2 * n))
}

// tell says a line for each key that does something else here.
func (s *settings) tell() {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if sentence := differs[key]; sentence != "" && !off(s.values[key]) {
			s.say(key, sentence)
		}
	}
}

// say keeps a line about a key, and puts keys with the same line together.
func (s *settings) say(key, sentence string) {
	for i, line := range s.lines {
		if keys, ok := strings.CutSuffix(line, ": "+sentence); ok {
			s.lines[i] = keys + ", " + key + ": " + sentence
			return
		}
	}
	s.lines = append(s.lines, key+": "+sentence)
}

// pairs returns a mapping of single values as name=value pairs, as lr_scheduler_kwargs is
// one; a text in braces is such a mapping, too.
func pairs(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && strings.HasPrefix(node.Value, "{") {
		var inner yaml.Node
		if yaml.Unmarshal([]byte(node.Value), &inner) == nil && len(inner.Content) == 1 {
			node = inner.Content[0]
		}
	}
	if node.Kind != yaml.MappingNode {
		return node
	}
	var all []string
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i+1].Kind != yaml.ScalarNode {
			return node // which scalar refuses
		}
		all = append(all, node.Content[i].Value+"="+node.Content[i+1].Value)
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.Join(all, ",")}
}
