package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/nn"
)

const (
	recomputeFlag = "gradient-checkpointing"
	recomputeHelp = "compute each layer's activations again for the backward pass instead of keeping them: less " +
		"memory, up to a third more time, the same losses to the bit; or those of parts of layers, as in " +
		"layers.0,layers.1.mlp,layers.2.self_attn"
	recomputeKinds = "true, false, " + automatic + " or parts of layers such as layers.0,layers.1.mlp"
)

// recomputing is the value of --gradient-checkpointing: a bool, parts of layers, or auto.
type recomputing struct {
	config *trainer.Config
	limits bool // there is a limit that auto chooses by
	auto   bool
}

var _ pflag.Value = (*recomputing)(nil)

// addRecompute adds the flag to a command.
func addRecompute(f *pflag.FlagSet, r *recomputing, config *trainer.Config, more string) {
	r.config, r.limits = config, more != ""
	f.Var(r, recomputeFlag, recomputeHelp+more)
	f.Lookup(recomputeFlag).NoOptDefVal = "true"
}

// Type implements pflag.Value.
func (*recomputing) Type() string { return "bool" }

// String implements pflag.Value.
func (r *recomputing) String() string {
	switch {
	case r.auto:
		return automatic
	case r.config != nil && r.config.CheckpointParts != nil:
		return strings.Join(r.config.CheckpointParts, ",")
	}
	return strconv.FormatBool(r.config != nil && r.config.GradientCheckpointing)
}

// Set implements pflag.Value.
func (r *recomputing) Set(s string) error {
	on, err := strconv.ParseBool(s)
	var parts []string
	auto := s == automatic
	switch {
	case err == nil:
	case auto && !r.limits:
		return errors.New("there is no limit to choose by: name parts of layers, or give true or false")
	case auto:
		on = true
	case !isLayers(s):
		return errors.New("it must be " + recomputeKinds)
	default:
		on = true
		for p := range strings.SplitSeq(s, ",") {
			p = strings.TrimSpace(p)
			if _, _, err := nn.ParseLayerPart(p); err != nil {
				return err
			}
			parts = append(parts, p)
		}
	}
	r.auto, r.config.GradientCheckpointing, r.config.CheckpointParts = auto, on, parts
	return nil
}

// isLayers reports whether a value begins as parts of layers do.
func isLayers(s string) bool { return strings.HasPrefix(s, nn.LayersPath) }

// joinRecompute has auto, or parts of layers, follow a flag that may do without a value, and else takes one with =
// only.
func joinRecompute(c *Command, args []string) []string {
	var all []string
	for i, arg := range args {
		if n := len(all); n > 0 && args[i-1] == "--"+recomputeFlag && c.Flags.Lookup(recomputeFlag) != nil &&
			(arg == automatic || isLayers(arg)) {
			all[n-1] += "=" + arg
			continue
		}
		all = append(all, arg)
	}
	return all
}

// partsInWords says which parts of a model's layers there are.
func partsInWords(parts []string, layers int) string {
	var whole, attention, block int
	for _, p := range parts {
		switch _, kind, _ := nn.ParseLayerPart(p); kind {
		case "":
			whole++
		case nn.AttentionPart:
			attention++
		default:
			block++
		}
	}
	var words []string
	for _, of := range []struct {
		n    int
		what string
	}{{whole, ""}, {attention, "the attention of "}, {block, "the MLP of "}} {
		if of.n > 0 {
			words = append(words, of.what+strconv.Itoa(of.n))
		}
	}
	return fmt.Sprintf("%s of %s", strings.Join(words, " and "), amount.Of(layers, "layer"))
}
