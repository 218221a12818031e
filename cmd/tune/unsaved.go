package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/progress"
)

// trySavingAgain is how long it takes until a model that cannot be saved is tried again.
const trySavingAgain = 2 * time.Second

// unsaved decides about a model that cannot be saved where it should be. Somebody at a
// terminal can make room for it, and an interrupt saves it elsewhere; without anybody it is
// saved elsewhere at once. Where nothing else can take it either, it is kept and tried
// again until there is room, or until it is given up by a second interrupt.
func (a *app) unsaved(ctx context.Context, u trainer.Unsaved) (again bool) {
	interrupted, remedy := ctx.Done(), "Ctrl-C saves it elsewhere"
	if u.Nowhere {
		interrupted, remedy = nil, "two interrupts (Ctrl-C) give it up"
	} else if !progress.IsTerminal(os.Stdin) || !progress.IsTerminal(os.Stderr) || ctx.Err() != nil {
		return false
	}
	if a.waiting != remedy { // said once
		a.waiting = remedy
		a.note("the model cannot be saved: %s", strings.ReplaceAll(u.Err.Error(), "\n", "\ntune: "))
		a.note("%s: saving is tried again every %v; %s", roomToSave(u.Err), trySavingAgain, remedy)
	}
	select {
	case <-a.abort:
		return false
	case <-interrupted:
		return false
	case <-time.After(trySavingAgain):
		return true
	}
}

// roomToSave is what somebody can do meanwhile about a model that cannot be saved.
func roomToSave(err error) string {
	if runtime.GOOS == "linux" {
		for _, l := range []struct {
			met        error
			what, flag string
		}{{syscall.EMFILE, "open files", "nofile"}, {syscall.EFBIG, "a file's size", "fsize"}} {
			if errors.Is(err, l.met) {
				return fmt.Sprintf("raise the limit of %s (prlimit --pid %d --%s shows it, --%[3]s=MORE: raises it)", l.what,
					os.Getpid(), l.flag)
			}
		}
	}
	return "make room"
}
