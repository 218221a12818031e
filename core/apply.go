package core

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Report says, site by site, what an application did, and can undo it.
type Report struct {
	Actions []Action
	swapped []Site // sites that this report's application changed
}

// Restore gives every site that this application changed its plain forward back.
// Restoring twice does nothing more. It fails once the model's graph is compiled.
func (r *Report) Restore() error {
	var errs []error
	var left []Site
	for _, s := range r.swapped {
		if err := s.Hook.Swap(nil); err != nil {
			errs = append(errs, fmt.Errorf("core: restore %s: %w", s.Path, err))
			left = append(left, s)
		}
	}
	r.swapped = left
	return errors.Join(errs...)
}

// Applied counts the sites that hold each kernel, by name.
func (r *Report) Applied() map[string]int {
	n := map[string]int{}
	for _, a := range r.Actions {
		if a.Kernel != nil {
			n[a.Kernel.Info().Name]++
		}
	}
	return n
}

// String prints the report as a table; see FormatActions.
func (r *Report) String() string { return FormatActions(r.Actions) }

// FormatActions prints one line for each group of sites that differ only in their
// numbers and got the same answer: how many, where, which op, the kernel or the reason. The
// names of the project's models and kernels fit 80 columns.
func FormatActions(actions []Action) string {
	type group struct {
		pattern, op, kernel, reason string
	}
	var order []group
	counts := map[group]int{}
	for _, a := range actions {
		g := group{pattern: pathPattern(a.Site.Path), op: string(a.Site.Op), kernel: "plain", reason: a.Reason}
		if a.Kernel != nil {
			g.kernel = a.Kernel.Info().Name
		}
		if counts[g] == 0 {
			order = append(order, g)
		}
		counts[g]++
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "N\tPATH\tOP\tFORWARD")
	patched := 0
	for _, g := range order {
		answer := "plain -> " + g.kernel
		if g.kernel == "plain" {
			answer = "plain"
		} else {
			patched += counts[g]
		}
		if g.reason != "" {
			answer += " (" + g.reason + ")"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", counts[g], g.pattern, g.op, answer)
	}
	w.Flush() // a strings.Builder never fails
	fmt.Fprintf(&b, "%d of %d sites use a fused kernel\n", patched, len(actions))
	return b.String()
}

// pathPattern replaces the numbers of a path by a star: layers.3.mlp is layers.*.mlp.
func pathPattern(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		if _, err := strconv.Atoi(p); err == nil {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}
