package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Info says what a kernel is. A plugin that offers several ops has one Info for
// each, all under the plugin's name.
type Info struct {
	Name     string  `json:"name"` // the plugin's name, such as npu_fused_rmsnorm; what --kernels takes
	Op       Op      `json:"op"`
	Version  string  `json:"version"`
	Summary  string  `json:"summary"` // one line for people
	DTypes   []DType `json:"dtypes"`
	Backward bool    `json:"backward"` // false: inference only, never placed in training
	// Adds names the float32 outputs of backward that the kernel can add to what is there, which
	// spares a pass over the gradients of weights that are summed over several batches; see
	// Call.Add. It is never told to add to others, nor in calls of more than AddsTokens tokens, unless
	// that is 0: where a sum is computed in several parts, adding the whole takes as long as that pass.
	Adds       []string `json:"adds,omitempty"`
	AddsTokens int      `json:"adds_tokens,omitempty"`
	// ByThreads says that the bits of results depend on how many threads the kernel computes with, as those of
	// libraries do that share out sums. A run with such a kernel has its bits again with as many threads only.
	ByThreads bool `json:"by_threads,omitempty"`
	// Keeps says that the kernel keeps what it makes of frozen weights from call to call, as package core/keep
	// does. Nobody gives the weights of a kernel that does not say so numbers for it; see Tensor.Content.
	Keeps bool `json:"keeps,omitempty"`
	// Rounds are the values of the fact products that Supports takes: what the kernel rounds the factors of
	// products to. Nobody else asks.
	Rounds []DType `json:"-"`
	// Activations are the values of the fact activation that Supports takes besides SiLU.
	Activations []string `json:"-"`
}

// Supports is what most kernels have for Kernel.Supports: it refuses facts that are not
// valid for the op, that have a tensor stored as none of i.DTypes, products of factors rounded to none
// of i.Rounds, or an activation other than silu and i.Activations. Errors wrap ErrNotSupported and say
// which fact is at fault.
func (i Info) Supports(f Facts) error {
	if err := f.Validate(i.Op); err != nil {
		return fmt.Errorf("%s: %w: %w", i.Name, ErrNotSupported, err)
	}
	stored := []DType{f.DType, f.WeightDType}
	if !i.Op.HasWeights() {
		stored = stored[:1]
	}
	for _, d := range stored {
		if !slices.Contains(i.DTypes, d) {
			return fmt.Errorf("%s: %w: storage %s; it can be %v", i.Name, ErrNotSupported, d, i.DTypes)
		}
	}
	if f.Products != InvalidDType && !slices.Contains(i.Rounds, f.Products) {
		return fmt.Errorf("%s: %w: products in %s; it multiplies factors as they are stored", i.Name, ErrNotSupported, f.Products)
	}
	if f.Activation != "" && f.Activation != SiLU && !slices.Contains(i.Activations, f.Activation) {
		return fmt.Errorf("%s: %w: activation %q; it can be %s", i.Name, ErrNotSupported, f.Activation,
			strings.Join(append([]string{SiLU}, i.Activations...), ", "))
	}
	return nil
}

// Kernel is an implementation of one op. Implementations must be safe for one call
// at a time; callers never run one kernel concurrently, and call it by Run. Models that run at the same time
// can share the kernels of plugins, whose calls wait for each other, and those of kerneltest.Verified.
type Kernel interface {
	Info() Info
	// Supports returns nil, or an error that wraps ErrNotSupported and says which fact
	// is at fault. It must be cheap and depend on nothing but the facts. Info.Supports
	// does for most kernels.
	Supports(f Facts) error
	// Forward and Backward run a pass. The call has passed Call.Check, and its facts are
	// ones that Supports has taken: a kernel need not look again. They write every element
	// of every output, read nothing from outputs but those of Call.Add, and never write to
	// inputs. The same call twice gives the same bits, with any number of threads unless
	// Info.ByThreads.
	Forward(ctx context.Context, c *Call) error
	Backward(ctx context.Context, c *Call) error
}

// ForwardOnly, embedded, gives a kernel of an op for inference the backward pass that no graph calls.
type ForwardOnly struct{}

// Backward implements Kernel; it is an error that wraps ErrNotSupported.
func (ForwardOnly) Backward(_ context.Context, c *Call) error {
	return fmt.Errorf("%w: %s has no backward pass", ErrNotSupported, c.Op)
}

// Run runs the pass that the call names, which is how kernels are called: what every
// kernel relies on is checked here, once. A call that Info.Accepts refuses is an error that
// wraps ErrBadCall, and a context that is done is its error.
// Run does not ask whether the kernel supports the facts. Its caller must have asked, as a plan
// does, and the plugin's side of the transport.
func Run(ctx context.Context, k Kernel, c *Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.Info().Accepts(c); err != nil {
		return &KernelError{Kernel: k.Info().Name, Op: c.Op, Pass: c.Pass, Site: c.Site, Err: err}
	}
	if c.Pass == Backward {
		return k.Backward(ctx, c)
	}
	return k.Forward(ctx, c)
}

// Verifier is an optional ability of a kernel: to prove itself against the reference,
// forward and every gradient, on small random data with these facts. A plan asks
// before it places the kernel. Errors wrap ErrWrongResult and give the numbers.
type Verifier interface {
	Verify(ctx context.Context, f Facts) error
}

// Memory hands out memory for tensors: 64-byte aligned, shared with whoever needs it.
type Memory interface {
	Alloc(bytes int) ([]byte, error)
	Free(b []byte)
}

// OutputMemory is an optional ability of a kernel: it names the only memory that its
// process may write, so that outputs placed there need no copy. Integers, which their
// readers use as indices, belong elsewhere: what lies there can change after it was looked at.
type OutputMemory interface {
	OutputMemory() Memory
}

// OutputsOf returns the memory in which a kernel's outputs need no copy: its own if it has
// one, else the memory that is given.
func OutputsOf(k Kernel, otherwise Memory) Memory {
	if o, ok := k.(OutputMemory); ok {
		if m := o.OutputMemory(); m != nil {
			return m
		}
	}
	return otherwise
}

// Health counts what happened to a kernel since it was opened.
type Health struct {
	Calls     uint64 `json:"calls"`     // passes run, either direction
	Deaths    uint64 `json:"deaths"`    // times its process died or was stopped after a deadline
	Repeats   uint64 `json:"repeats"`   // calls that were run again after a death
	Fallbacks uint64 `json:"fallbacks"` // calls that the reference answered instead
	Copies    uint64 `json:"copies"`    // tensors that had to be copied because they were not in shared memory
	// Waited is how long callers have waited for passes that succeeded in the plugin. Busy is
	// the part of it in which the kernel ran; the rest was spent on the way there and back.
	Waited    time.Duration `json:"waited_ns"`
	Busy      time.Duration `json:"busy_ns"`
	LastError string        `json:"last_error,omitempty"`
}

// HealthReporter is an optional ability of a kernel.
type HealthReporter interface {
	Health() Health
}

// HealthOf returns what a kernel reports of itself, nothing for one that does not.
func HealthOf(k Kernel) Health {
	if r, ok := k.(HealthReporter); ok {
		return r.Health()
	}
	return Health{}
}

// Manifest says who a plugin is.
type Manifest struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Path     string `json:"path"`     // the executable, or BuiltIn and the name
	Checksum string `json:"checksum"` // SHA-256 of the executable, hexadecimal
	Kernels  []Info `json:"kernels"`
}

// Summaries returns those of all kernels, in their order.
func (m Manifest) Summaries() []string {
	all := make([]string, len(m.Kernels))
	for i, k := range m.Kernels {
		all[i] = k.Summary
	}
	return all
}

// Plugin is an executable that offers kernels, opened.
type Plugin interface {
	Manifest() Manifest
	Kernels() []Kernel
	Close() error
}

// Rester is implemented by plugins that can end their process when their kernels will not be
// called for a while. The next call starts another.
type Rester interface {
	Rest()
}

// Opener starts the executable at path and asks it who it is. The transport
// implements it: transport.Open.
type Opener func(ctx context.Context, path string) (Plugin, error)
