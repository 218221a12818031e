// Package measure gives --kernels auto its meaning: a kernel is taken where it is faster
// than the plain forward, or spares much memory, on this machine and for batches of this
// size. Each use of an op that a model's sites have in common is run a few times both
// ways, see nn.Probe, and the outcome is remembered on disk.
package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/placement"
)

// Options say how to measure. The zero value is right for most programs.
type Options struct {
	// CacheDir holds what was measured. "" means the folder tune/measured in
	// os.UserCacheDir; "off" measures in every run.
	CacheDir string
	// Again measures also what is remembered, and replaces it.
	Again bool
	// Placed are the actions of other plans, which stay in use: their plugins keep their
	// processes.
	Placed []core.Action
	// Limit is how long measuring may take in all, but for the first measurement; 0 is no limit. Kernels for which
	// there is no time left stay unused, and are measured by a later plan.
	Limit time.Duration
	// Logger is told how long measuring took, and of a CacheDir that cannot be written.
	// nil means slog.Default().
	Logger *slog.Logger
}

// Run is what a measurement stands for: training on batches of one size, or using the
// model on them.
type Run struct {
	Memory      core.Memory        // for the programs that are measured, which plugins can read
	Batch, Seq  int                // rows of a batch, tokens of a row; 0 means DefaultBatch, DefaultSeq
	MaxPosition int                // positions stay below; 0 means Seq
	Keepless    bool               // kernels keep nothing between calls
	Inference   bool               // without a backward pass; kernels that have none are allowed
	Plain       map[core.Op]string // ops that get no kernel, and why; see core.Plain
}

// The batches of a plain run.
const (
	DefaultBatch = 4
	DefaultSeq   = 256
)

// options of the plan.
func (r Run) options() []core.Option {
	var opts []core.Option
	if r.Inference {
		opts = append(opts, core.Inference())
	}
	for op, reason := range r.Plain {
		opts = append(opts, core.Plain(op, reason))
	}
	return opts
}

// mostTokens bounds the rows that are measured. Time and memory of every op grow in
// proportion to the rows, so more of them tell nothing new.
const mostTokens = 4096

// Plan is core.NewPlan for a selection as --kernels takes it, except that auto takes only the kernels that a
// measurement finds worth it. A model of trainer/nn has its sites for inference if the run is that. It measures with
// as many threads as package simd is set to. Plugins that get no site need no process then; see core.Registry.Rest.
// The selection from:RUN measures nothing and repeats what that run had; see trainer/placement.
func Plan(ctx context.Context, m core.Model, reg *core.Registry, selection string, r Run, o Options) (*core.Plan,
	error) {
	sel, err := core.ParseSelection(selection)
	if err != nil {
		return nil, err
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if sel.From != "" {
		return repeat(ctx, m, reg, sel.From, r, o)
	}
	if whole, ok := m.(interface{ ForInference() core.Model }); ok && r.Inference {
		m = whole.ForInference()
	}
	if pool, ok := r.Memory.(*shm.Pool); ok { // whose pages would stay in use, beside those of the run
		apart := pool.Apart()
		defer apart.Close() // when no process maps it any more
		r.Memory = apart
	}
	s := newSession(reg, r, o)
	p, err := core.NewPlan(ctx, m, reg, sel, append(r.options(), core.Measured(s.measure))...)
	if err == nil && s.fresh > 0 {
		o.Logger.Info("measured kernels against the plain forward", "uses", s.fresh, "took",
			time.Since(s.start).Round(100*time.Millisecond))
		if s.late > 0 {
			o.Logger.Info("not all kernels were measured in time: these stay unused now, and are measured by the next run",
				"uses", s.late, "limit", o.Limit)
		}
	}
	if s.fresh > 0 { // also a process that is needed has grown by what was measured; it starts again when it is called
		reg.Rest(o.Placed)
	}
	if err != nil {
		return nil, err
	}
	reg.Rest(slices.Concat(p.Actions, o.Placed))
	return p, nil
}

// repeat plans what a run had.
func repeat(ctx context.Context, m core.Model, reg *core.Registry, run string, r Run, o Options) (*core.Plan, error) {
	was, err := placement.Read(run)
	if err != nil {
		return nil, err
	}
	p, warning, err := was.Plan(ctx, m, reg, r.options()...)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		o.Logger.Warn("the run whose kernels are repeated had another processor, or its plugins another library: its "+
			"losses can differ from these by rounding", "changed", warning)
	}
	reg.Rest(slices.Concat(p.Actions, o.Placed))
	return p, nil
}

// session is the measuring for one plan.
type session struct {
	reg   *core.Registry
	run   Run
	opts  Options
	cache *cache
	seen  map[use]outcome
	fresh int       // measurements made
	start time.Time // of the first
	late  int       // of those for which there was no time
}

// New returns what compares the kernels of a registry with the plain forward, for batches
// of that size, and remembers the outcome, as tune's --kernels auto does:
//
//	auto := core.Measured(measure.New(reg, run, measure.Options{}))
//	report, err := core.ApplyDefaultKernels(ctx, model, reg, "auto", auto)
//
// It is for a model that is put together of modules of package trainer/nn, and for batches
// of another size than a model of package trainer/models assumes. A plain forward of
// another make needs a core.Measure of its own.
func New(reg *core.Registry, r Run, o Options) core.Measure { return newSession(reg, r, o).measure }

func newSession(reg *core.Registry, r Run, o Options) *session {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	r.Batch, r.Seq = cmp.Or(r.Batch, DefaultBatch), cmp.Or(r.Seq, DefaultSeq)
	r.MaxPosition = cmp.Or(r.MaxPosition, r.Seq)
	r.Batch = min(r.Batch, max(1, mostTokens/r.Seq))
	return &session{reg: reg, run: r, opts: o, cache: newCache(o), seen: map[use]outcome{}}
}

// use is what sites that need only one measurement have in common.
type use struct {
	kernel       core.Kernel
	op           core.Op
	facts        core.Facts
	rowsPerToken int
}

type outcome struct {
	core.Measurement
	err error
}

// measure compares a kernel with the plain forward of a site, or remembers how they
// compared.
func (s *session) measure(ctx context.Context, site core.Site, k core.Kernel) (core.Measurement, error) {
	u := use{k, site.Op, site.Facts, nn.RowsPerToken(site)}
	done, ok := s.seen[u]
	if !ok {
		done.Measurement, done.err = s.remember(ctx, site, u)
		s.seen[u] = done
	}
	return done.Measurement, done.err
}

// remember answers from the cache, or measures and puts the result there.
func (s *session) remember(ctx context.Context, site core.Site, u use) (core.Measurement, error) {
	k, known := s.key(u)
	if known && !s.opts.Again {
		if m, ok := s.cache.load(k); ok {
			m.Cached = true
			return m, nil
		}
	}
	if s.fresh == 0 {
		s.start = time.Now()
	} else if s.opts.Limit > 0 && time.Since(s.start) > s.opts.Limit {
		s.late++
		return core.Measurement{}, fmt.Errorf("%w: the next run measures it", core.ErrLater)
	}
	s.fresh++
	m, err := s.compare(ctx, site, u.kernel)
	if err != nil || !known || !m.Timed() {
		return m, err
	}
	if err := s.cache.store(k, m); err != nil {
		s.opts.Logger.Info("measurements cannot be remembered; the next run measures again", "folder", s.cache.dir, "error",
			err)
	}
	return m, nil
}

// compare measures.
func (s *session) compare(ctx context.Context, site core.Site, k core.Kernel) (core.Measurement, error) {
	if s.run.Memory == nil {
		return core.Measurement{}, errors.New("measure: Run.Memory is nil: set it to the memory of the model's tensors")
	}
	if site.Facts.Frozen { // what the kernels before keep would take the room of what this one may
		s.reg.Rest(s.opts.Placed)
	}
	before := core.HealthOf(k)
	p, err := nn.NewProbe(s.run.Memory, site, k, s.run.Batch, s.run.Seq, s.run.MaxPosition, s.run.Inference)
	if err != nil {
		return core.Measurement{}, err
	}
	defer p.Close()
	sizes := core.Measurement{PlainBytes: p.Bytes(false), KernelBytes: p.Bytes(true), Tokens: s.run.Batch * s.run.Seq}
	if free := memory.Available(); free > 0 && int64(sizes.PlainBytes)+int64(sizes.KernelBytes) > free/2 {
		return sizes, nil // running both could end this process
	}
	m, err := rounds(ctx, p, sizes)
	if err != nil {
		return m, err
	}
	if after := core.HealthOf(k); after.Deaths > before.Deaths || after.Fallbacks > before.Fallbacks {
		return m, fmt.Errorf("its plugin failed: %s", after.LastError)
	}
	return m, nil
}
