package core

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Measurement compares a kernel with the plain forward of a site, on this machine. Where
// the memory for both is not to be had, nothing is timed and memory alone decides.
type Measurement struct {
	Plain  time.Duration `json:"plain_ns"`  // forward and backward of the site without the kernel, a median
	Kernel time.Duration `json:"kernel_ns"` // the same with it, or as much of Plain as in the fastest runs if that is more
	// Doubt is by how much Kernel/Plain may be off, with a confidence of 95%; 0 where nobody has asked.
	Doubt float64 `json:"doubt,omitempty"`

	PlainBytes  int `json:"plain_bytes"` // memory for activations, without gradients of weights
	KernelBytes int `json:"kernel_bytes"`

	Tokens int  `json:"tokens"` // of the batch that both ran on
	Cached bool `json:"cached"` // remembered from an earlier run
}

// What makes a kernel worth it.
const (
	// noise is what two medians of the same work differ by on a machine that is otherwise
	// idle. A gain below it may be none, and the plain forward needs no other process.
	noise = 0.03
	// memoryPrice is how much slower a kernel may be that spares much memory: it at least halves what the
	// site takes, and by more than memoryFloor, below which nobody would notice. It is little, since the loss of a large
	// vocabulary is half of a step; where memory decides what fits at all, there is none for a comparison.
	memoryPrice = 0.01
	memoryFloor = 16 << 20
)

// Worth reports whether auto takes the kernel: it is faster by more than noise and without a doubt, or hardly
// slower and spares much memory.
func (m Measurement) Worth() bool {
	gain := m.gain()
	if gain > max(noise, m.Doubt) {
		return true
	}
	return m.sparesMemory() && (!m.Timed() || gain >= -memoryPrice && gain-m.Doubt > -noise)
}

// Settled reports whether a longer measurement would hardly change what Worth says.
func (m Measurement) Settled() bool {
	limit := noise
	if m.sparesMemory() {
		limit = -memoryPrice
	}
	return math.Abs(m.gain()-limit) > m.Doubt
}

// gain is the part of the plain forward's time that the kernel spares.
func (m Measurement) gain() float64 {
	if m.Plain == 0 {
		return 0
	}
	return 1 - float64(m.Kernel)/float64(m.Plain)
}

// Timed reports whether both were run.
func (m Measurement) Timed() bool { return m.Plain > 0 && m.Kernel > 0 }

func (m Measurement) sparesMemory() bool {
	return m.PlainBytes-m.KernelBytes > memoryFloor && 2*m.KernelBytes <= m.PlainBytes
}

// Speedup is how many times faster the kernel is; below 1 it is slower.
func (m Measurement) Speedup() float64 { return float64(m.Plain) / float64(max(m.Kernel, 1)) }

// String gives the figures, as in "0.60 ms against 1.26 ms plain, 1024 tokens".
func (m Measurement) String() string {
	if !m.Timed() {
		return fmt.Sprintf("not timed for want of memory: %d MiB against %d MiB plain, %s",
			m.KernelBytes>>20, m.PlainBytes>>20, m.tokens())
	}
	s := fmt.Sprintf("%s against %s plain, %s", milliseconds(m.Kernel), milliseconds(m.Plain), m.tokens())
	if m.sparesMemory() {
		s += fmt.Sprintf(", %d MiB against %d MiB", m.KernelBytes>>20, m.PlainBytes>>20)
	}
	return s
}

func (m Measurement) tokens() string {
	if m.Tokens == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", m.Tokens)
}

// milliseconds prints a duration with about three digits.
func milliseconds(d time.Duration) string {
	ms := d.Seconds() * 1e3
	digits := 0
	for bound := 100.0; digits < 4 && ms < bound; bound /= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f ms", digits, ms)
}

// ErrLater is the error of a Measure that has no time for a kernel now: the site stays plain, and there is nothing
// wrong with the kernel.
var ErrLater = errors.New("there was no time left")

// Measure compares a kernel with the plain forward of a site. An error leaves the site
// alone and becomes its reason. A plan asks for every site: remember the answer, as most
// sites have the facts of another.
type Measure func(ctx context.Context, s Site, k Kernel) (Measurement, error)

// Measured says how auto measures: before it places a kernel that was not named, a plan
// asks for a comparison, and takes the kernel if it is worth it. Without this option, a
// plan asks the model, which must then be a Measurer. Package trainer/measure has a
// Measure for every op; all and names never measure.
func Measured(m Measure) Option { return func(o *options) { o.measure = m } }

// Measurer is an optional ability of a Model: to know how auto measures kernels for it, in
// inference, which has no backward pass, or in training. The models of package
// trainer/models are Measurers.
type Measurer interface {
	Measure(r *Registry, inference bool) Measure
}

// askModel gives auto a way to measure where no option has.
func (o *options) askModel(m Model, r *Registry) error {
	if o.measure != nil {
		return nil
	}
	if a, ok := m.(Measurer); ok {
		o.measure = a.Measure(r, o.inference)
	}
	if o.measure == nil {
		return fmt.Errorf("core: auto takes the kernels that are faster here, and a %T does not say "+
			"how to measure them: pass core.Measured(measure.New(...)) of trainer/measure, or select "+
			"\"all\", which measures nothing", m)
	}
	return nil
}

// best returns what auto does at a site: of the kernels that are worth it the fastest, or none.
func (o options) best(ctx context.Context, site Site, kernels []Kernel) (Action, error) {
	var best Action
	var reasons []string
	for _, k := range kernels {
		a, err := o.weigh(ctx, Action{Site: site, Kernel: k})
		switch {
		case err != nil:
			return a, err
		case a.Kernel == nil:
			reasons = append(reasons, a.Reason)
		}
		if best.Site.Hook == nil || a.Kernel != nil && (best.Kernel == nil || a.Measured.Kernel < best.Measured.Kernel) {
			best = a
		}
	}
	if best.Kernel == nil {
		best.Reason = strings.Join(reasons, "; ")
	}
	return best, nil
}

// weigh leaves the kernel out of an action that auto has chosen unless it is worth it.
func (o options) weigh(ctx context.Context, a Action) (Action, error) {
	name := a.Kernel.Info().Name
	m, err := o.measure(ctx, a.Site, a.Kernel)
	switch {
	case err != nil && ctx.Err() != nil:
		return a, fmt.Errorf("core: measure %s on %s: %w", name, a.Site.Path, ctx.Err())
	case err != nil:
		return Action{Site: a.Site, Reason: fmt.Sprintf("%s: not measured: %v", name, err),
			Trouble: !errors.Is(err, ErrLater)}, nil
	}
	a.Measured = &m
	if !m.Worth() {
		verdict := "no better"
		if m.Timed() {
			verdict = "no faster"
		}
		switch gain := m.gain(); {
		case gain < -noise:
			verdict = "slower"
		case gain > noise:
			verdict = "not surely faster"
		}
		a.Kernel, a.Reason = nil, fmt.Sprintf("%s is %s: %s", name, verdict, m)
	}
	return a, nil
}
