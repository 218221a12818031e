package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Report says, site by site, what an application did, and can undo it. A nil Report, such as comes with an error, is
// of no sites.
type Report struct {
	Actions []Action
	swapped []Site // sites that this report's application changed
}

// Restore gives every site that this application changed its plain forward back.
// Restoring twice does nothing more. It fails once the model's graph is compiled.
func (r *Report) Restore() error {
	if r == nil {
		return nil // of an application that failed, and so has changed nothing
	}
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

// all returns the actions, none of a nil Report.
func (r *Report) all() []Action {
	if r == nil {
		return nil
	}
	return r.Actions
}

// Processes is how many processes the kernels at sites run in. Those of one process share the memory for outputs; one that
// has no such memory is linked into the program.
func (r *Report) Processes() int {
	all := map[Memory]bool{}
	for _, a := range r.all() {
		if a.Kernel == nil {
			continue
		}
		if m := OutputsOf(a.Kernel, nil); m != nil {
			all[m] = true
		}
	}
	return len(all)
}

// Applied counts the sites that hold each kernel, by name.
func (r *Report) Applied() map[string]int {
	n := map[string]int{}
	for _, a := range r.all() {
		if a.Kernel != nil {
			n[a.Kernel.Info().Name]++
		}
	}
	return n
}

// String prints the report as a table; see FormatActions.
func (r *Report) String() string { return FormatActions(r.all()) }

// FormatActions prints one line for each group of sites that differ only in their
// numbers, or are neighbours such as q_proj and k_proj, and got the same answer: how many,
// where, which op, the kernel or the reason; and another line with the figures where auto
// has measured. The names of the project's models and kernels fit 80 columns.
func FormatActions(actions []Action) string {
	patched, covered := countPlaced(actions)
	text := table(actions) + fmt.Sprintf("%d of %d sites use a fused kernel", patched, len(actions)-covered)
	if covered > 0 {
		text += fmt.Sprintf("; it does the work of %d more", covered)
	}
	return text + "\n"
}

// Brief prints the report as one line: how many sites have a kernel, and the text more at its end. If a kernel did
// something wrong, the table of the sites that have none for it comes before that line.
func (r *Report) Brief(more string) string {
	patched, covered := countPlaced(r.all())
	trouble := slices.DeleteFunc(slices.Clone(r.all()), func(a Action) bool { return !a.Trouble })
	text := ""
	if len(trouble) > 0 {
		text = table(trouble)
	}
	return text + fmt.Sprintf("%d of %d sites use a fused kernel%s\n", patched, len(r.all())-covered, more)
}

func countPlaced(actions []Action) (patched, covered int) {
	for _, a := range actions {
		if a.Kernel != nil {
			patched++
		}
		if a.CoveredBy != "" {
			covered++
		}
	}
	return patched, covered
}

// table is FormatActions without the last line.
func table(actions []Action) string {
	var order []answer
	counts := map[answer]int{}
	for _, a := range actions {
		g := newAnswer(a)
		if counts[g] == 0 {
			order = append(order, g)
		}
		counts[g]++
	}
	order = neighbours(order, counts)
	var lines, out strings.Builder
	w := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "N\tPATH\tFORWARD")
	for _, g := range order {
		fmt.Fprintf(w, "%d\t%s\t%s\n", counts[g], g.pattern, g.forward)
	}
	w.Flush() // a strings.Builder never fails
	for i, line := range slices.Collect(strings.Lines(lines.String())) {
		wrap(&out, strings.TrimRight(line, "\n"))
		if i > 0 && order[i-1].figures != "" {
			wrap(&out, "    "+order[i-1].figures)
		}
	}
	return out.String()
}

// wrap writes a line, broken at spaces so that it fits 80 columns if that is possible.
func wrap(out *strings.Builder, line string) {
	const width, indent = 80, "      "
	for len(line) > width {
		at := strings.LastIndex(line[:width+1], " ")
		if strings.TrimSpace(line[:max(at, 0)]) == "" {
			break
		}
		fmt.Fprintln(out, strings.TrimRight(line[:at], " "))
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	fmt.Fprintln(out, line)
}

// answer is what a plan says of a group of sites.
type answer struct {
	pattern, forward string
	figures          string // "" where nothing was measured
}

func newAnswer(a Action) answer {
	g := answer{pattern: PathPattern(a.Site.Path), forward: "plain " + string(a.Site.Op)}
	if a.Kernel != nil {
		g.forward = "plain -> " + a.Kernel.Info().Name
	}
	if a.CoveredBy != "" {
		g.forward = "covered by " + PathPattern(strings.TrimPrefix(a.CoveredBy, a.Site.Path)) // .add, of norm.add at norm
	}
	reason := strings.Join(strings.Fields(a.Reason), " ") // on one line
	switch {
	case a.Measured != nil && a.Kernel == nil:
		g.figures, reason = reason, ""
	case a.Measured != nil && !a.Measured.Timed():
		g.figures = a.Measured.String()
	case a.Measured != nil:
		g.figures = fmt.Sprintf("%.1fx: %s", a.Measured.Speedup(), a.Measured)
	}
	if reason != "" {
		g.forward += " (" + reason + ")"
	}
	return g
}

// neighbours joins answers that are alike of sites one after the other whose names in one module end
// alike: layers.*.mlp.{gate,up}_proj.
func neighbours(order []answer, counts map[answer]int) []answer {
	var joined []answer
	var parent, end string
	var names []string // of the last of joined, without their end
	for _, g := range order {
		at := strings.LastIndex(g.pattern, ".") + 1
		name, rest, whole := strings.Cut(g.pattern[at:], "_")
		n := len(joined) - 1
		if n >= 0 && whole && parent == g.pattern[:at] && end == rest && joined[n].forward == g.forward &&
			joined[n].figures == g.figures {
			count := counts[joined[n]]
			names = append(names, name)
			joined[n].pattern = fmt.Sprintf("%s{%s}_%s", parent, strings.Join(names, ","), end)
			counts[joined[n]] = count + counts[g]
			continue
		}
		joined, parent, end, names = append(joined, g), g.pattern[:at], rest, []string{name}
	}
	return joined
}

// PathPattern replaces the numbers of a path by a star: layers.3.mlp is layers.*.mlp.
func PathPattern(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		if _, err := strconv.Atoi(p); err == nil {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}
