package nn

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// RouterConfig says how a router chooses the experts of a token and weighs them.
type RouterConfig struct {
	Experts, TopK int

	// Sigmoid scores each expert by itself, as in GLM-4.5; otherwise a softmax over all
	// experts does, as in Qwen.
	Sigmoid bool
	// Bias adds a number for each expert to the scores that choose, and not to those that
	// weigh. No gradient reaches it: it is a buffer of the model.
	Bias bool
	// LogitBias adds a parameter, path.bias, to the logits. The published code then has no linear layer for the router,
	// and so no place for an adapter.
	LogitBias bool
	// BiasName is what files call the bias, a matrix of one row there, if it is no part of the router's module.
	BiasName string
	// Groups, above 1, divides the experts into so many groups, in order. A token chooses
	// TopGroups of them by the sum of their two best scores; the scores of experts in other
	// groups count as 0, which can still be chosen before a negative one.
	Groups, TopGroups int
	Normalize         bool    // divide the weights of a token by their sum
	Scale             float64 // multiplies the weights in the end; 0 means 1
}

// facts returns what an op that reads the weights may know of them.
func (f RouterConfig) facts() core.Routing {
	switch {
	case f.Scale != 0 && f.Scale != 1:
		return core.RoutingAny
	case f.Normalize:
		return core.RoutingNormalized
	case f.Sigmoid:
		return core.RoutingAny
	}
	return core.RoutingSoftmax
}

// moeGate returns the facts of moe_gate.
func (f RouterConfig) moeGate() core.Facts {
	facts := core.Facts{Experts: f.Experts, TopK: f.TopK, Scoring: core.ScoringSoftmax, Bias: f.Bias,
		Groups: 1, TopGroups: 1, Normalize: f.Normalize, Scale: 1}
	if f.Sigmoid {
		facts.Scoring = core.ScoringSigmoid
	}
	if f.Groups > 1 {
		facts.Groups, facts.TopGroups = f.Groups, f.TopGroups
	}
	if f.Scale != 0 {
		facts.Scale = f.Scale
	}
	return facts
}

// Router chooses K experts for each token by a linear layer's logits. Its site, for what
// comes after that layer, offers moe_gate.
type Router struct {
	cfg  RouterConfig
	gate *Linear
	bias *Param // [E], nil without one
	*site
}

// routes is what a router decides: logits [T, E]; weights and ids [T, K].
type routes struct{ logits, weights, ids *autograd.Value }

// NewRouter adds the parameter path.weight and, if asked, the buffer
// path.e_score_correction_bias, or BiasName, and the site.
func NewRouter(b *Builder, path, sitePath string, hidden int, cfg RouterConfig) *Router {
	r := &Router{cfg: cfg, gate: &Linear{Weight: b.Param(path+".weight", cfg.Experts, hidden)}}
	if cfg.LogitBias {
		r.gate.Bias = b.Param(path+".bias", cfg.Experts)
	}
	r.gate.offer(b, sitePath+".logits")
	b.gates = append(b.gates, r.gate)
	r.site = b.site(sitePath, core.MoEGate, cfg.moeGate())
	switch {
	case cfg.Bias && cfg.BiasName == "":
		// No target: with the bias it is a module of its own in the published code, which
		// PEFT refuses to adapt.
		r.bias = b.Buffer(path+".e_score_correction_bias", cfg.Experts)
		return r
	case cfg.Bias:
		r.bias = b.Buffer(cfg.BiasName, cfg.Experts)
		r.bias.Entries[0].Shape = core.Shape{1, cfg.Experts}
	}
	if !cfg.LogitBias {
		r.gate.target(b, path)
	}
	return r
}

// Forward records the choice for x [T, D].
func (r *Router) Forward(c *Context, x *autograd.Value) routes {
	logits := r.gate.Forward(c, x)
	weights, ids := r.choose(c, logits)
	return routes{logits, weights, ids}
}

// choose records the weights and ids of the experts of each token.
func (r *Router) choose(c *Context, logits *autograd.Value) (weights, ids *autograd.Value) {
	f, g := r.cfg, c.G
	if r.kernel != nil {
		in := []*autograd.Value{logits}
		if r.bias != nil {
			in = append(in, c.Leaf(r.bias))
		}
		out := r.fused(c, logits.Shape()[0], in...)
		return out[0], out[1]
	}
	scores := softmaxRows
	if f.Sigmoid {
		scores = sigmoid
	}
	weighing := scores(g, logits)
	choosing := weighing
	if r.bias != nil {
		choosing = addToRows(g, choosing, c.Leaf(r.bias))
	}
	if f.Groups > 1 {
		choosing = keepGroups(g, choosing, f.Groups, f.TopGroups)
	}
	weights, ids = topK(g, choosing, f.TopK)
	if choosing != weighing {
		weights = gather(g, weighing, ids)
	}
	if f.Normalize {
		least := 0.0
		if f.Sigmoid {
			least = leastSum
		}
		weights = normalizeRows(g, weights, least)
	}
	if f.Scale != 0 && f.Scale != 1 {
		weights = times(g, weights, float32(f.Scale))
	}
	return weights, ids
}

// leastSum is added to a sum of sigmoids, which may all be too small for a float32.
const leastSum = 1e-20
