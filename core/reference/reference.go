// Package reference computes each op of the contract in plain Go: the oracle that
// kernels are checked against, and the fallback when a kernel does not support a call.
// It is written for reading. T tokens, D dim, I intermediate, E experts, K experts per
// token; s(g) = 1/(1+exp(-g)) is the sigmoid.
//
//	rms_norm     rstd = 1/sqrt(mean(x^2) + eps);  n = x*rstd;  y = n*(offset + weight)
//	             dweight = sum over T of dy*n;  g = dy*(offset + weight)
//	             dx = rstd*(g - n*mean(g*n))
//	add_rms_norm h = x + residual;  y = rms_norm of h, which is an output and so rounded
//	             dx = dh + dx of rms_norm;  the gradient of residual is the same
//	swiglu       y = gate*s(gate)*up
//	             dgate = dy*up*(s + gate*s*(1-s));  dup = dy*gate*s
//	rope         for each pair (a, b) of a head, c and s from the tables at its position:
//	             a' = a*c - b*s;  b' = b*c + a*s;  the gradient is the rotation by -s
//	moe_gate     score = softmax or sigmoid of the logits;  choice = score + bias
//	             a group's choice is the sum of its two best; outside the best groups, choice = 0
//	             ids = the K best choices, best first;  p = score[ids];  q = p/sum(p) or p
//	             weights = scale*q;  the gradient goes back through q, p and score
//	moe_experts  for each assignment of token t to expert e with routing weight p:
//	             g = gate[e] x_t;  u = up[e] x_t;  h = g*s(g)*u;  y_t += p * down[e] h
//	             v = down[e]^T dy_t;  dp = h . v;  ddown[e] += p * dy_t h^T
//	             dg, du = gradient of swiglu for p*v;  dgate[e] += dg x_t^T, and so up;
//	             dx_t += gate[e]^T dg + up[e]^T du
//	attention    query t and key j in [first_t, end_t):  s = q_t . k_j / sqrt(head_dim);
//	             lse_t = log(sum over j of exp(s));  p = exp(s - lse_t);  y_t = sum of p*v_j
//	             ds = p*(dy_t . v_j - dy_t . y_t)/sqrt(head_dim);  dv_j += p*dy_t
//	             dq_t += ds*k_j;  dk_j += ds*q_t
//	linear_cross_entropy
//	             z = weight x_t;  lse = log(sum of exp(z));  loss_t = lse - z[label_t]
//	             dz = dloss_t*(exp(z - lse) - [v = label_t])
//	             dx_t = weight^T dz;  dweight += dz x_t^T;  nothing for a negative label
//
// Storage is rounded where the op says so and nowhere else: at each output, at
// rms_norm's n when the cast comes before the weight, and at moe_experts' g and u, which
// are an output. Gradients treat a rounding as the identity. NaN and infinity go
// wherever the formulas take them.
package reference

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
)

// Kernel returns the reference of op, with float64 arithmetic. It supports all valid
// facts, in every storage type including float64.
func Kernel(op core.Op) core.Kernel { return kernel{op: op} }

// Single returns the same formulas evaluated in float32, one operation after the other
// in the order written; but attention's scores are float64. Its distance from Kernel shows how much of a difference
// float32 rounding explains on given data, which is how tolerances are derived.
func Single(op core.Op) core.Kernel { return kernel{op: op, single: true} }

type kernel struct {
	op     core.Op
	single bool
}

// Info implements core.Kernel.
func (k kernel) Info() core.Info {
	return core.Info{
		Name:     "reference",
		Op:       k.op,
		Version:  "1",
		Summary:  "plain Go with float64 arithmetic",
		DTypes:   []core.DType{core.Float32, core.BFloat16, core.Float16, core.Float64},
		Backward: true,
	}
}

// Supports implements core.Kernel.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// Forward implements core.Kernel.
func (k kernel) Forward(_ context.Context, c *core.Call) error { return k.run(c, core.Forward) }

// Backward implements core.Kernel.
func (k kernel) Backward(_ context.Context, c *core.Call) error { return k.run(c, core.Backward) }

func (k kernel) run(c *core.Call, pass core.Pass) error {
	if c.Op != k.op || c.Pass != pass {
		return fmt.Errorf("reference: %w: %s %s given to %s %s", core.ErrBadCall, c.Op, c.Pass, k.op, pass)
	}
	if err := k.Supports(c.Facts); err != nil {
		return err
	}
	if k.single {
		compute[float32](c)
	} else {
		compute[float64](c)
	}
	return nil
}

func compute[F float](c *core.Call) {
	switch c.Op {
	case core.RMSNorm:
		runRMSNorm[F](c)
	case core.AddRMSNorm:
		runAddRMSNorm[F](c)
	case core.SwiGLU:
		runSwiGLU[F](c)
	case core.RoPE:
		runRoPE[F](c)
	case core.MoEGate:
		runMoEGate[F](c)
	case core.MoEExperts:
		runMoE[F](c)
	case core.Attention:
		runAttention[F](c)
	case core.LinearCrossEntropy:
		runLinearCrossEntropy[F](c)
	}
}
