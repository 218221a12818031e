package core

import (
	"errors"
	"fmt"
)

// The sentinels of the contract. Errors of this package and of the transport that a program can do something
// about wrap one of them, with the names involved and the remedy. A mistake of the program itself, such as the use of
// a closed registry, and one of the operating system wrap none.
var (
	// ErrNotSupported: a kernel does not support these facts or shapes. It is the only
	// error after which the reference may quietly take over, counted and reported.
	ErrNotSupported = errors.New("not supported")
	// ErrUnknownKernel: a name that no registered kernel has.
	ErrUnknownKernel = errors.New("unknown kernel")
	// ErrNoSite: a kernel named explicitly matches no site of the model.
	ErrNoSite = errors.New("no matching site")
	// ErrConflict: two kernels claim one site, or one is where a plan wants none.
	ErrConflict = errors.New("kernel conflict")
	// ErrDuplicate: two executables, or two linked kernels, offer the same name.
	ErrDuplicate = errors.New("duplicate kernel name")
	// ErrIncompatible: a plugin speaks another protocol, or another version of it.
	ErrIncompatible = errors.New("incompatible plugin")
	// ErrUntrusted: a plugin's file may not be started: its lock does not allow it, or
	// somebody else could have written it.
	ErrUntrusted = errors.New("untrusted plugin")
	// ErrPluginExited: the plugin's process died or was stopped after a deadline.
	ErrPluginExited = errors.New("plugin exited")
	// ErrSpoiled: a call that adds to its outputs ended before they were complete, so that
	// nobody knows what is there. What they are sums of has to be computed again.
	ErrSpoiled = errors.New("a sum is lost that a call was adding to")
	// ErrCompiled: the model's graph exists already, so its sites are fixed.
	ErrCompiled = errors.New("the model's graph is already compiled")
	// ErrWrongResult: a kernel differs from the reference by more than rounding explains.
	ErrWrongResult = errors.New("kernel differs from the reference")
	// ErrBadCall: a tensor of a call is missing, has the wrong dtype or shape, or has an
	// index that points nowhere.
	ErrBadCall = errors.New("bad call")
)

// KernelError says which kernel failed, in which pass, and at which site if known.
type KernelError struct {
	Kernel string
	Op     Op
	Pass   Pass
	Site   string
	Err    error
}

// Error implements error.
func (e *KernelError) Error() string {
	at := ""
	if e.Site != "" {
		at = " at " + e.Site
	}
	return fmt.Sprintf("kernel %s: %s %s%s: %v", e.Kernel, e.Op, e.Pass, at, e.Err)
}

// Unwrap returns the cause.
func (e *KernelError) Unwrap() error { return e.Err }
