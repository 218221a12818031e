package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/distributed"
)

// rankFlags are the flags of a run of several ranks.
type rankFlags struct {
	distributed string
	timeout     time.Duration
	reduce      string
	behind      bool
	sync        int
	shard       bool
}

const (
	distributedAuto = "auto"
	distributedOff  = "off"
)

func (r *rankFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.distributed, "distributed", distributedAuto, "`WHETHER` processes that mpirun or srun has started "+
		"train one model together: auto or off. Without such a launcher nothing changes")
	f.StringVar(&r.reduce, "reduce-dtype", string(distributed.Float32), "`TYPE` in which gradients travel between "+
		"machines: float32 or bfloat16, which halves the bytes; on a machine sums are float32")
	f.BoolVar(&r.shard, "shard-optimizer", false, "each rank keeps the optimizer's state of its own share of the "+
		"weights, updates that and gets the rest from the others (ZeRO-1): less memory, the same weights but for rounding")
	f.IntVar(&r.sync, "sync-check", 100, "compare the ranks' parameters after the first step and every so many `STEPS`, "+
		"and end the run if they differ; 0 for never")
	f.BoolVar(&r.behind, "reduce-behind", false, "sum gradients after the backward pass, not beside it, to see what "+
		"that hides")
	f.DurationVar(&r.timeout, "rank-timeout", distributed.DefaultTimeout, "the longest `TIME` that the ranks wait for "+
		"one of them, such as 90s: then all end. Saving a checkpoint is in it")
}

// check validates the values.
func (r *rankFlags) check(c *Command) error {
	if err := c.oneOf("distributed", r.distributed, distributedAuto, distributedOff); err != nil {
		return err
	}
	if r.timeout <= 0 {
		return c.usagef("--rank-timeout is %v, must be positive", r.timeout)
	}
	if r.sync < 0 {
		return c.usagef("--sync-check is %d, must not be negative; 0 compares nothing", r.sync)
	}
	return c.oneOf("reduce-dtype", r.reduce, distributed.Types()...)
}

// join makes this process one of several that train together, if it was started so.
func (a *app) join(t *trainFlags) (err error) {
	r := &t.ranks
	t.config.Ranks = trainer.Ranks{SyncCheck: r.sync,
		Reduce: trainer.Reduction{Type: distributed.Type(r.reduce), Behind: r.behind, Shard: r.shard}}
	if a.launch.Alone() {
		return nil
	}
	a.joined = true
	a.asRank()
	o := distributed.Options{Timeout: r.timeout, Fatal: func(err error) { a.reportOfRank(err, nil) }}
	if a.world, err = distributed.Open(a.launch, o); err != nil {
		return err
	}
	threads, err := a.world.Threads()
	if err != nil {
		return err
	}
	if t.config.Threads == 0 {
		t.config.Threads = threads
	}
	a.note0("%d ranks on %s, %d here with %d threads each, by %s", a.world.Size(), amount.Of(a.world.Nodes(), "machine"),
		len(a.world.Node()), t.config.Threads, a.world.Version())
	return nil
}

// printRanks says what several ranks have lost to each other.
func (a *app) printRanks(w io.Writer, s *trainer.Summary) {
	if a.world != nil {
		fmt.Fprintf(w, "  ranks          %d on %s; this one waited %.0f%% of the time for others\n", a.world.Size(),
			amount.Of(a.world.Nodes(), "machine"), 100*s.Waited.Seconds()/s.Elapsed.Seconds())
	}
}

// follows reports whether another rank prints, logs and saves.
func (a *app) follows() bool { return a.launch.Rank > 0 }

// note0 is note, of the first rank alone.
func (a *app) note0(format string, args ...any) {
	if !a.follows() {
		a.note(format, args...)
	}
}

// ofRank names the rank in each line of notes, which are written as a whole.
type ofRank struct {
	to   io.Writer
	name string
}

// Write implements io.Writer.
func (w *ofRank) Write(b []byte) (int, error) {
	text := string(b)
	if rest, is := strings.CutPrefix(text, "tune: "); is {
		text = "tune: " + w.name + ": " + rest
	}
	if _, err := io.WriteString(w.to, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// named says that a failure is this rank's, unless it names a rank.
func (a *app) named(failure string) string {
	if a.launch.Alone() || a.follows() { // whose notes all have its name
		return failure
	}
	for rank := range a.world.Hosts() {
		if strings.Contains(failure, a.world.Name(rank)) {
			return failure
		}
	}
	return a.launch.Name() + ": " + failure
}

// abortAll is deferred: a panic of one rank ends all.
func (a *app) abortAll() {
	if a.world == nil {
		return
	}
	if cause := recover(); cause != nil {
		fmt.Fprintf(os.Stderr, "panic: %v\n%s", cause, debug.Stack())
		a.world.Abort(exitUsage) // as a panic of Go does
	}
}
