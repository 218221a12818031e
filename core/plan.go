package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Option changes how a plan is made.
type Option func(*options)

type options struct {
	inference bool
	plain     map[Op]string     // why sites of an op get no kernel
	except    func(Site) string // why a site gets none, "" if it may; or nil
	measure   Measure           // how auto compares; set by NewPlan if auto is selected
}

// Inference allows kernels without a backward pass.
func Inference() Option { return func(o *options) { o.inference = true } }

// Plain keeps kernels off the sites of an op, and gives the reason: whoever asks for the
// plan computes the op in a way of its own, or not at all.
func Plain(op Op, reason string) Option {
	return func(o *options) {
		if o.plain == nil {
			o.plain = map[Op]string{}
		}
		o.plain[op] = reason
	}
}

// Except keeps kernels off the sites for which it is given a reason; "" is none. What such a
// site could cover then does its own work. A kernel that such a site holds is an error of Plan.Apply.
// Repeat does not ask it.
func Except(reason func(Site) string) Option { return func(o *options) { o.except = reason } }

// Action is what a plan does at one site: the kernel chosen, or the reason why none.
type Action struct {
	Site   Site
	Kernel Kernel // nil: the plain forward stays
	Reason string // why no kernel, or that it was in place already

	// Trouble says that a kernel which somebody may have counted on was left out: it fits the site, but failed its check
	// or could not be measured, or it does not fit and was named.
	Trouble bool

	// CoveredBy is the path of the site whose kernel does the work of this one too; see
	// Site.Within. Whatever the site itself holds is then not used.
	CoveredBy string

	// Measured is what auto has decided by: a comparison of the kernel, or of the one
	// that the reason names, with the plain forward. nil where nothing was measured.
	Measured *Measurement

	off bool // the site must not hold a kernel either
}

// Plan is pure data: nothing is swapped until Apply.
type Plan struct {
	Actions []Action // one for each site, in the model's order
	not     []string // kernels that were excluded
}

// NewPlan decides for each site of the model which kernel it gets. Explicit names come
// before auto and all, and a site that covers another before that. It returns an error,
// and no plan, for an unknown name, a named kernel that matches no site or fails its check
// for one, two kernels of equal rank on one site, facts that no op has, sites
// that cannot be told apart or swapped, auto for a model that nobody says how to measure
// (see Measured), and a context that ends what is verified or measured. It starts plugins that
// do not run.
func NewPlan(ctx context.Context, m Model, r *Registry, sel Selection, opts ...Option) (*Plan, error) {
	o, sites, err := prepare(ctx, m, r, opts)
	if err != nil {
		return nil, err
	}
	if sel.From != "" {
		return nil, fmt.Errorf("core: the kernels from:%s are those of a run: read them with "+
			"trainer/placement, and call Repeat", sel.From)
	}
	if sel.Auto {
		if err := o.askModel(m, r); err != nil {
			return nil, err
		}
	}
	if _, err := r.CheckNames(sel); err != nil {
		return nil, err
	}
	p := &Plan{not: sel.Not}
	c := &chooser{checker{o, map[verifyKey]error{}}, r, sel, map[string]error{}}
	by := map[string]string{} // the site whose kernel does the work of a site
	for _, site := range sites {
		if err := site.Facts.Validate(site.Op); err != nil && site.Plain == "" {
			return nil, fmt.Errorf("core: site %s: %w", site.Path, err)
		}
		if at := by[site.Within]; at != "" { // the larger site came first, and may lie in a larger one
			by[site.Path] = at
			p.Actions = append(p.Actions, Action{Site: site, CoveredBy: at})
			continue
		}
		a, err := c.choose(ctx, site)
		if err != nil {
			return nil, err
		}
		if a.Kernel != nil || site.Hook.Kernel() != nil {
			by[site.Path] = site.Path
		}
		p.Actions = append(p.Actions, a)
	}
	if err := p.checkNamed(c); err != nil {
		return nil, err
	}
	return p, nil
}

// prepare reads the options, and makes sure that there are a context, a registry and a model, whose
// sites it returns.
func prepare(ctx context.Context, m Model, r *Registry, opts []Option) (o options, sites []Site, err error) {
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	switch {
	case ctx == nil:
		return o, nil, errors.New("core: there is no context: pass context.Background()")
	case r == nil:
		return o, nil, errors.New("core: there is no registry to take kernels from: " +
			"pass one of ScanAllKernels or NewRegistry, not nil")
	case r.closed:
		return o, nil, errClosed
	case m == nil:
		return o, nil, errors.New("core: there is no model: pass one, not nil")
	}
	sites = m.Sites()
	return o, sites, checkSites(sites)
}

// endedError is the end of the context while a kernel was verified or measured, which is no
// fault of the kernel, whatever came of it.
type endedError struct{ error }

// Unwrap returns the context's error.
func (e endedError) Unwrap() error { return e.error }

type verifyKey struct {
	name  string
	op    Op
	facts Facts
}

// checker knows which kernels may take which sites.
type checker struct {
	o        options
	verified map[verifyKey]error // most layers have the facts of another
}

// chooser decides for one site after the other.
type chooser struct {
	checker
	r        *Registry
	sel      Selection
	declined map[string]error // of each named kernel, why it does not take the first site that it cannot
}

// choose picks the kernel of one site: a named one, else one of auto or all.
func (c *chooser) choose(ctx context.Context, site Site) (Action, error) {
	if site.Plain != "" {
		return Action{Site: site, Reason: site.Plain}, nil
	}
	if c.o.except != nil {
		if reason := c.o.except(site); reason != "" {
			return Action{Site: site, Reason: reason, off: true}, nil
		}
	}
	named, candidates, refused, err := c.candidates(ctx, site)
	switch {
	case err != nil:
		return Action{}, err
	case !named && c.sel.Auto && len(candidates) > 0:
		a, err := c.o.best(ctx, site, candidates)
		if err == nil && a.Kernel == nil && refused.Trouble {
			a.Reason, a.Trouble = a.Reason+"; "+refused.Reason, true
		}
		return a, err
	case len(candidates) > 1:
		a, b := candidates[0].Info().Name, candidates[1].Info().Name
		remedy := "name one of them alone"
		if !named {
			remedy = "exclude one, as in all,-" + b
		}
		return Action{}, fmt.Errorf("core: site %s (%s): %w: %s and %s both claim it; %s", site.Path, site.Op, ErrConflict,
			a, b, remedy)
	case len(candidates) == 1:
		return Action{Site: site, Kernel: candidates[0]}, nil
	case refused.Reason != "":
		return refused, nil
	}
	return Action{Site: site, Reason: absence(site.Op, c.r, c.sel), off: c.sel.none()}, nil
}

// candidates returns the kernels that may take a site, those that are named or, without any, those of auto and all;
// and if none may, what is done for the reasons of those that were selected.
func (c *chooser) candidates(ctx context.Context, site Site) (isNamed bool, all []Kernel, refused Action, err error) {
	var named, general []Kernel
	var reasons []string
	refused.Site = site
	for _, k := range c.r.kernels {
		info := k.Info()
		isNamed := slices.Contains(c.sel.Names, info.Name)
		if info.Op != site.Op || !isNamed && (!c.sel.Auto && !c.sel.All || slices.Contains(c.sel.Not, info.Name)) {
			continue
		}
		err := c.usable(ctx, k, site)
		switch {
		case err == nil && isNamed:
			named = append(named, k)
		case err == nil:
			general = append(general, k)
		case errors.As(err, new(endedError)):
			return false, nil, refused, fmt.Errorf("core: verify %s for %s: %w", info.Name, site.Path, err)
		case isNamed && !errors.Is(err, ErrNotSupported):
			return false, nil, refused, cannotTake(info.Name, site, err)
		default:
			if isNamed && c.declined[info.Name] == nil {
				c.declined[info.Name] = cannotTake(info.Name, site, err)
			}
			reasons = append(reasons, info.Name+": "+strings.TrimPrefix(err.Error(), info.Name+": "))
			refused.Trouble = refused.Trouble || isNamed || !errors.Is(err, ErrNotSupported)
		}
	}
	if refused.Reason = strings.Join(reasons, "; "); named != nil {
		return true, named, refused, nil
	}
	return false, general, refused, nil
}

func cannotTake(name string, site Site, err error) error {
	return fmt.Errorf("core: kernel %s was named but cannot take %s: %w", name, site.Path, err)
}

// absence says why no kernel was even considered for an op.
func absence(op Op, r *Registry, sel Selection) string {
	if sel.none() {
		return "kernels are off"
	}
	for _, k := range r.kernels {
		if k.Info().Op == op {
			return "not selected"
		}
	}
	return fmt.Sprintf("no kernel offers %s", op)
}

// usable reports why a kernel may not take a site.
func (c *checker) usable(ctx context.Context, k Kernel, site Site) error {
	info := k.Info()
	if reason, ok := c.o.plain[info.Op]; ok {
		return fmt.Errorf("%w: %s", ErrNotSupported, reason)
	}
	if len(info.Op.Passes()) == 1 && !c.o.inference {
		return fmt.Errorf("%w: %s is for inference and has no backward pass, and this is training", ErrNotSupported, info.Op)
	}
	if !info.Backward && !c.o.inference {
		return fmt.Errorf("%w: it has no backward pass, and this is training", ErrNotSupported)
	}
	if err := k.Supports(site.Facts); err != nil {
		return err
	}
	v, ok := k.(Verifier)
	if !ok {
		return nil
	}
	key := verifyKey{info.Name, info.Op, site.Facts}
	err, seen := c.verified[key]
	if !seen {
		if err = v.Verify(ctx, site.Facts); err != nil && ctx.Err() != nil {
			return endedError{ctx.Err()}
		}
		c.verified[key] = err
	}
	return err
}

// checkNamed makes sure that every kernel named explicitly is placed somewhere.
func (p *Plan) checkNamed(c *chooser) error {
	for _, name := range c.sel.Names {
		placed := slices.ContainsFunc(p.Actions, func(a Action) bool {
			return a.Kernel != nil && a.Kernel.Info().Name == name
		})
		if placed {
			continue
		}
		if err := c.declined[name]; err != nil {
			return fmt.Errorf("%w; it fits no site, and a kernel that is named must fit one", err)
		}
		ks, err := c.r.Lookup(name)
		if err != nil {
			return err
		}
		var ops []string
		for _, k := range ks {
			op := k.Info().Op
			ops = append(ops, string(op))
			if i := slices.IndexFunc(p.Actions, func(a Action) bool { return a.CoveredBy != "" && a.Site.Op == op }); i >= 0 {
				return fmt.Errorf("core: kernel %s: %w: another kernel at %s does the work of %s; exclude that one",
					name, ErrNoSite, p.Actions[i].CoveredBy, p.Actions[i].Site.Path)
			}
			// Nobody asked the kernel about a site that no kernel may take.
			if i := slices.IndexFunc(p.Actions, func(a Action) bool { return a.Site.Op == op }); i >= 0 {
				return fmt.Errorf("core: kernel %s: %w: %s stays plain: %s", name, ErrNoSite, p.Actions[i].Site.Path, p.Actions[i].Reason)
			}
		}
		return fmt.Errorf("core: kernel %s: %w: it offers %s; the model uses %s",
			name, ErrNoSite, strings.Join(ops, ", "), p.ops())
	}
	return nil
}

func (p *Plan) ops() string {
	var ops []string
	for _, a := range p.Actions {
		if !slices.Contains(ops, string(a.Site.Op)) {
			ops = append(ops, string(a.Site.Op))
		}
	}
	return cmp.Or(strings.Join(ops, ", "), "none of the ops")
}

// Apply carries the plan out, all of it or nothing. A site that holds the planned
// kernel already stays as it is, and so does one for which no kernel was chosen, whatever it holds. One that holds
// another than was planned, or one although the plan was of none there, by "none", an exclusion, Except or Repeat, is an
// error that wraps ErrConflict and names it. A panic of a hook goes on once the sites are as they were.
func (p *Plan) Apply() (_ *Report, err error) {
	sites := make([]Site, len(p.Actions))
	for i, a := range p.Actions {
		sites[i] = a.Site
	}
	if err := checkSites(sites); err != nil {
		return nil, err
	}
	report, whole := &Report{}, false
	defer func() {
		if !whole {
			err = errors.Join(err, report.Restore())
		}
	}()
	for _, a := range p.Actions {
		old := a.Site.Hook.Kernel()
		switch {
		case a.CoveredBy != "":
		case a.Kernel == nil && old != nil && (a.off || slices.Contains(p.not, old.Info().Name)):
			return nil, fmt.Errorf("core: site %s: %w: it holds %s, and none was planned there (%s); "+
				"restore the first report before", a.Site.Path, ErrConflict, old.Info().Name, a.Reason)
		case a.Kernel == nil && old != nil:
			a.Kernel, a.Reason = old, "in place already"
		case a.Kernel != nil && old == a.Kernel:
			a.Reason = "in place already"
		case a.Kernel != nil && old != nil:
			return nil, fmt.Errorf("core: site %s: %w: it holds %s, and %s was planned; restore the first report before",
				a.Site.Path, ErrConflict, old.Info().Name, a.Kernel.Info().Name)
		case a.Kernel != nil:
			if err := a.Site.Hook.Swap(a.Kernel); err != nil {
				return nil, fmt.Errorf("core: put %s on %s: %w", a.Kernel.Info().Name, a.Site.Path, err)
			}
			report.swapped = append(report.swapped, a.Site)
		}
		report.Actions = append(report.Actions, a)
	}
	whole = true
	return report, nil
}

// ApplyDefaultKernels plans and applies a selection as --kernels takes it: "auto",
// "all", "none", names, "auto,-npu_fused_rope". Registry.Rest with the report's actions ends
// the processes that nobody calls then.
//
// It adds to what an earlier report has placed, and takes nothing away: "none", or an exclusion, of a kernel that is in
// place already is an error that wraps ErrConflict. Restore the earlier report before.
func ApplyDefaultKernels(ctx context.Context, m Model, r *Registry, selection string,
	opts ...Option) (*Report, error) {
	sel, err := ParseSelection(selection)
	if err != nil {
		return nil, err
	}
	return applySelection(ctx, m, r, sel, opts)
}

// ApplyKernel places one kernel by name, on every site of its ops that it supports; none is an error.
func ApplyKernel(ctx context.Context, name string, m Model, r *Registry, opts ...Option) (*Report, error) {
	return applySelection(ctx, m, r, Selection{Names: []string{name}}, opts)
}

func applySelection(ctx context.Context, m Model, r *Registry, sel Selection, opts []Option) (*Report, error) {
	p, err := NewPlan(ctx, m, r, sel, opts...)
	if err != nil {
		return nil, err
	}
	return p.Apply()
}
