package main

import (
	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer/nn"
)

// addObjective adds the flags of what training adds to the plain loss.
func addObjective(f *pflag.FlagSet, o *nn.Objective) {
	f.Float64Var(&o.Noise, "neftune-noise-alpha", o.Noise, "`ALPHA` of NEFTune: noise of up to alpha/sqrt(tokens x "+
		"width) on what the embedding gives, while training; 5 is usual, 0 for none")
	f.Float64Var(&o.Smoothing, "label-smoothing", o.Smoothing, "`SHARE` of each target that all tokens of the "+
		"vocabulary have alike, while training; the loss then has no kernel")
	f.Float64Var(&o.Balance, "router-aux-loss", o.Balance, "`WEIGHT` of the load-balancing loss of a mixture's "+
		"routers; 0 for that of config.json, if output_router_logits is true there")
	f.Float64Var(&o.RouterZ, "router-z-loss", o.RouterZ, "`WEIGHT` of the z-loss of a mixture's routers, which "+
		"keeps their logits small")
}
