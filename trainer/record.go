package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
)

// recorder tells journals what the session does: that in the output folder, and those of
// the job. A journal that fails is a warning, and no reason to stop a run.
type recorder struct {
	*session
	path   string // of the journal in the output folder; "" without one
	file   *journal.Writer
	behind bool            // file lacks events
	late   *journal.Writer // was closed and still lacks events
	sinks  []journal.Sink
	warn   func(error)
	ended  bool
	memory *memory.Process

	step    journal.Step // reused
	health  []health
	updates int           // of the optimizer since the start
	update  time.Duration // spent in them
	started time.Time
	timed   time.Time // when the time of kernels was told last
}

// health is a kernel and what had happened to it when it was last asked.
type health struct {
	core.HealthReporter
	info core.Info
	was  core.Health
}

// record makes the recorder follow the hooks of the session's job, of which the session
// gets a copy.
func (r *session) record() *recorder {
	rec := &recorder{session: r, path: r.out.file(journal.File), sinks: r.job.Journal, warn: r.job.Hooks.OnWarning, memory: memory.NewProcess()}
	job := *r.job
	follow(&job.Hooks.OnStart, rec.onStart)
	follow(&job.Hooks.OnStep, rec.onStep)
	follow(&job.Hooks.OnEval, func(e Eval) {
		rec.send(&journal.Eval{Time: time.Now(), Step: e.Step, Loss: e.Loss, Targets: e.Targets, Metrics: e.named()})
	})
	follow(&job.Hooks.OnCheckpoint, func(c Checkpoint) {
		rec.send(&journal.Checkpoint{Time: time.Now(), Step: c.Step, Path: c.Path})
	})
	follow(&job.Hooks.OnWrong, rec.onWrong)
	follow(&job.Hooks.OnWarning, rec.onWarning)
	r.job, r.journal = &job, rec
	return rec
}

// follow calls next before what the hook calls: whatever that does, it is in the journal.
func follow[T any](hook *func(T), next func(T)) {
	first := *hook
	*hook = func(v T) { next(v); call(first, v) }
}

// send gives an event to all journals, and takes those out that fail, but for that in the output folder: it keeps what
// a full disk does not take until there is room again, as there may be for the next checkpoint.
func (r *recorder) send(e journal.Event) {
	for i := 0; i < len(r.sinks); i++ {
		err := r.sinks[i].Record(e)
		if r.sinks[i] == journal.Sink(r.file) {
			if err != nil && !r.behind {
				call(r.warn, fmt.Errorf("the journal of the run lags behind until it can be written: %w", err))
			}
			r.behind = err != nil
			continue
		}
		if err != nil {
			call(r.warn, fmt.Errorf("%w; nothing more of the run is written there", err))
			r.sinks = append(r.sinks[:i:i], r.sinks[i+1:]...)
			i--
		}
	}
}

func (r *recorder) onStart(s Start) {
	for _, k := range r.job.Registry.Kernels() {
		if h, ok := k.(core.HealthReporter); ok {
			r.health = append(r.health, health{h, k.Info(), h.Health()})
		}
	}
	if err := r.open(); err != nil {
		call(r.warn, fmt.Errorf("the run keeps no journal: %w", err))
	}
	config, err := json.Marshal(s.Config)
	if err != nil {
		config = []byte("{}") // Validate has found every number finite
	}
	r.started = time.Now()
	r.timed = r.started
	r.send(&journal.Start{Time: r.started, Version: journal.Version, Resumed: s.Resumed, Model: s.Model, Parameters: s.Parameters,
		Rows: s.Rows, EvalRows: s.EvalRows, Steps: s.Steps, Ranks: r.job.World.Hosts(),
		Config: config, Environment: environment(), Memory: r.planned(),
		Sites: sites(r.sum.Report), Plugins: r.plugins()})
}

// open opens the journal in the output folder. That of the run that is resumed goes on, or
// is copied into another folder.
func (r *recorder) open() error {
	from := r.job.Resume
	if r.path == "" {
		return nil
	}
	if from != nil && !r.ended {
		if err := r.adopt(filepath.Join(filepath.Dir(filepath.Clean(from.Dir)), journal.File)); err != nil {
			call(r.warn, fmt.Errorf("the journal of the run so far: %w", err))
		}
	}
	if from == nil {
		// What is there is that of a run which was killed early, or not a journal.
		if _, err := journal.Read(r.path); err != nil && !errors.Is(err, journal.ErrMissing) {
			return err
		}
	}
	var err error
	if r.file, err = journal.Open(r.path); err == nil {
		r.sinks = append([]journal.Sink{r.file}, r.sinks...)
	}
	return err
}

// adopt takes over the journal of the run so far, if it has one.
func (r *recorder) adopt(path string) error {
	earlier, err := journal.Read(path)
	if errors.Is(err, journal.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range r.sinks {
		if s, ok := s.(journal.Resumer); ok {
			s.Resume(earlier)
		}
	}
	if _, err := os.Stat(r.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return checkpoint.WriteFileAtomic(r.path, text, 0o644)
}

func (r *recorder) onStep(s Step) {
	r.updates++
	r.update += s.Update
	now := time.Now()
	r.step = journal.Step{Time: now, Step: s.Step, Loss: s.Loss, LR: s.LR, GradNorm: s.GradNorm, Tokens: s.Tokens, Seconds: s.Took.Seconds(),
		Memory: r.memory.Resident(), Metrics: s.Metrics.Named(), Waited: s.Ranks.Waited.Seconds(), Slowest: s.Ranks.Slowest}
	r.send(&r.step)
	for i := range r.health {
		r.ask(&r.health[i])
	}
	// Often at first, when somebody looks on, and then often enough for a run that is killed.
	const soonest, latest = 5 * time.Second, 5 * time.Minute
	if now.Sub(r.timed) > min(max(now.Sub(r.started)/4, soonest), latest) {
		r.tellTimes(now)
	}
}

// ask tells what has happened to a kernel since it was asked last.
func (r *recorder) ask(h *health) {
	now, was := h.Health(), h.was
	if h.was = now; now.Deaths == was.Deaths && now.Repeats == was.Repeats && now.Fallbacks == was.Fallbacks {
		return
	}
	r.send(&journal.Incident{Time: time.Now(), Step: r.state.Step, Kernel: h.info.Name, Op: h.info.Op, Deaths: now.Deaths - was.Deaths,
		Repeats: now.Repeats - was.Repeats, Fallbacks: now.Fallbacks - was.Fallbacks, Error: now.LastError})
}

// tellTimes tells how long each operation took so far.
func (r *recorder) tellTimes(now time.Time) {
	r.timed = now
	k := &journal.Kernels{Time: now, Step: r.state.Step}
	if p := r.engine.Program(); p != nil { // a take-off without room leaves none
		for _, s := range p.Stats() {
			if s.Calls > 0 {
				k.Calls = append(k.Calls, journal.Call{Op: s.Op, Kernel: s.Kernel, Pass: s.PassName(), Calls: s.Calls, Seconds: s.Time.Seconds()})
			}
		}
	}
	if r.update > 0 {
		k.Calls = append(k.Calls, journal.Call{Op: r.job.Config.Optimizer.name(), Pass: "update", Calls: r.updates, Seconds: r.update.Seconds()})
	}
	r.send(k)
}

func (r *recorder) onWrong(w *core.KernelError) {
	r.send(&journal.Incident{Time: time.Now(), Step: r.state.Step, Kernel: w.Kernel, Op: w.Op, TakenOff: true, Error: w.Site + ": " + w.Err.Error()})
}

func (r *recorder) onWarning(err error) {
	if !r.started.IsZero() {
		r.send(&journal.Warning{Time: time.Now(), Step: r.state.Step, Text: err.Error()})
	}
}

// end tells the end of the run, and closes the journal of the output folder.
func (r *recorder) end(err error) {
	r.ended = true
	r.tellTimes(time.Now())
	for i := range r.health {
		r.ask(&r.health[i])
	}
	e := &journal.End{Time: time.Now(), Step: r.state.Step, Loss: r.trained().Loss, Interrupted: r.sum.Interrupted || errors.Is(err, context.Canceled)}
	if s := r.check.Stats(); s.Calls > 0 || len(s.Left) > 0 {
		e.Checked = &journal.Checked{Calls: s.Calls, Seconds: s.Took.Seconds(), Left: s.Left}
	}
	if err != nil {
		e.Error = err.Error()
	}
	r.send(e)
	r.shut()
}

// shut closes the journal of the output folder.
func (r *recorder) shut() {
	if r.file == nil {
		return
	}
	r.sinks = slices.DeleteFunc(r.sinks, func(s journal.Sink) bool { return s == r.file })
	if err := r.file.Close(); err != nil {
		call(r.warn, err)
		r.late = r.file
	}
	r.file, r.behind = nil, false
}

// catchUp writes what a full disk did not take of the journal when it was closed, as there may be room by now.
func (r *recorder) catchUp() {
	if r.late != nil && r.late.CloseAgain() == nil {
		r.late = nil
	}
}

// close ends a run that has failed, also one that had ended well but could not be saved.
// Its journal stays where checkpoints do.
func (r *recorder) close(err error) {
	defer r.memory.Close() // which nothing is written to
	if r.ended && err == nil || r.started.IsZero() {
		return
	}
	if r.ended && r.out.run != nil {
		if err := r.open(); err != nil {
			call(r.warn, err)
		}
	}
	if err != nil {
		r.end(err)
	}
	r.shut() // in a panic, which tells of itself
	if r.out.run == nil {
		return
	}
	if steps, err := checkpoint.Steps(r.out.path); err == nil && len(steps) == 0 {
		if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			call(r.warn, err)
		}
		if err := os.RemoveAll(r.out.file(PredictionsDir)); err != nil {
			call(r.warn, err)
		}
	}
}
