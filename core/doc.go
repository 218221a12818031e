// Package core is the kernel patcher: it finds fused kernels in plugins and swaps
// them into the modules of a model, forward and backward, and can undo it. It imports
// only the standard library, and internal/nearest to list the likeliest of the names that
// exist; it knows no model, no autograd and no RPC.
//
// # The words
//
// An [Op] is a mathematical operation with one fixed meaning. [Facts] distinguish one
// use of an op from another: sizes, dtype, norm offset, rotary pairing. A [Site] is one
// place in a model that uses an op, with the [Hook] that swaps its forward. A [Kernel] is
// an implementation of an op, forward and backward. A [Plugin] is an executable that
// offers kernels. A [Plan] says for each site which kernel it gets, or why none; Apply
// carries it out and returns a [Report]; Restore undoes it. The reference, in package
// core/reference, is the plain implementation that every kernel must equal.
//
// # The life of a kernel
//
//	reg, err := core.ScanAllKernels(ctx, dirs, transport.Open) // ask every executable who it is
//	if err != nil {
//		return err
//	}
//	defer reg.Close()
//	report, err := core.ApplyDefaultKernels(ctx, model, reg, "auto") // plan, verify, measure, swap
//	if err != nil {
//		return err
//	}
//	fmt.Print(report) // site by site, or the reason
//	... train ...
//	err = report.Restore() // the exact forward of before
//
// "auto" takes the kernels that are worth it on this machine, by a measurement: a model of
// package trainer/models brings it (see [Measurer]), for another one it is passed (see
// [Measured]). "all" takes every kernel that fits, and measures nothing.
//
// Kernels match declared facts, never class names and never the values of weights. A
// kernel is verified against the reference, forward and every gradient, before its first
// use with some facts (see [Verifier]). A kernel at the site of a larger op covers the
// sites within it (see [Site.Within]). Parameters are never replaced: the same tensors and
// the same names, before and after.
//
// # Calls
//
// A [Call] names its tensors by the op's [Signature], and [Run] calls the kernel:
// [Call.Check] verifies dtypes, shapes and indices before a kernel sees them. Tensors are
// views over memory that the caller owns; a kernel in another process reads them where they
// are, and writes its outputs into its own [OutputMemory]. Inputs do not change while a kernel runs, so a call whose
// process died can be run again, exactly; but for one that adds to its outputs, see [Call.Add]: there the sums
// are computed again, from the first call on.
//
// # Errors
//
//	ErrUnknownKernel  a name that nobody offers; the nearest known name comes first
//	ErrNoSite         a kernel named explicitly matches no site
//	ErrConflict       two kernels claim one site, or one is where a plan wants none; they are named
//	ErrDuplicate      two executables offer one name; both paths are given
//	ErrNotSupported   facts or shapes that a kernel does not take: the only error after
//	                  which the reference may take over, counted and reported
//	ErrWrongResult    verification failed; the numbers are in the text
//	ErrIncompatible   not a plugin, or one that speaks another protocol
//	ErrUntrusted      a file that the lock does not allow, or that somebody else could have written
//	ErrPluginExited   the process died or hung
//	ErrSpoiled        so did one that was adding to its outputs, which are lost
//	ErrCompiled       too late to swap: the graph exists
//	ErrBadCall        a tensor is missing, of the wrong form, or has an index to nowhere
//	ErrLater          a Measure has no time left for a kernel
package core
