// Code generated from the folders of internal/ops by go generate; DO NOT EDIT.

package ops

import (
	"github.com/seed98097648/tune/internal/opdef"
	addrmsnorm "github.com/seed98097648/tune/internal/ops/add_rms_norm"
	attention "github.com/seed98097648/tune/internal/ops/attention"
	attentionpre "github.com/seed98097648/tune/internal/ops/attention_pre"
	gateupswiglu "github.com/seed98097648/tune/internal/ops/gate_up_swiglu"
	linear "github.com/seed98097648/tune/internal/ops/linear"
	linearcrossentropy "github.com/seed98097648/tune/internal/ops/linear_cross_entropy"
	linearw8a8 "github.com/seed98097648/tune/internal/ops/linear_w8a8"
	moeexperts "github.com/seed98097648/tune/internal/ops/moe_experts"
	moegate "github.com/seed98097648/tune/internal/ops/moe_gate"
	pagedattention "github.com/seed98097648/tune/internal/ops/paged_attention"
	qkv "github.com/seed98097648/tune/internal/ops/qkv"
	reshapeandcache "github.com/seed98097648/tune/internal/ops/reshape_and_cache"
	rmsnorm "github.com/seed98097648/tune/internal/ops/rms_norm"
	rope "github.com/seed98097648/tune/internal/ops/rope"
	swiglu "github.com/seed98097648/tune/internal/ops/swiglu"
)

// all has every op, in the order of core.Ops.
var all = []*opdef.Op{
	addrmsnorm.Op,
	attention.Op,
	attentionpre.Op,
	gateupswiglu.Op,
	linear.Op,
	linearcrossentropy.Op,
	linearw8a8.Op,
	moeexperts.Op,
	moegate.Op,
	pagedattention.Op,
	qkv.Op,
	reshapeandcache.Op,
	rmsnorm.Op,
	rope.Op,
	swiglu.Op,
}
