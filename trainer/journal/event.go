// Package journal keeps the story of a training run: a file of JSON lines in the run's
// folder, one for each step, evaluation, checkpoint and accident of a plugin, with who and
// where the run was in the first.
//
// A line is in the file when Record returns, so that a run that is killed has told
// everything up to its last step; half a line at the end is ignored. A run that is resumed
// goes on in the same file: what it does again replaces what was done before.
package journal

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
)

// File is the name of the journal in a run's folder.
const File = "run.jsonl"

// Version is that of the lines that this program writes and reads.
const Version = 1

// Event is something that happened: a *Start, *Step, *Eval, *Incident, *Checkpoint,
// *Warning, *Kernels or *End.
type Event interface{ kind() string }

// Sink takes the events of a run, in their order and from one goroutine. It must not keep
// an event: the next may have the same memory. After an error it gets no more.
type Sink interface{ Record(Event) error }

// Resumer is an optional ability of a Sink: it is told what a run that is resumed has done
// before, ahead of the first event.
type Resumer interface{ Resume(earlier *Run) }

// Start is the beginning of a run, or of going on with one.
type Start struct {
	Time    time.Time `json:"time"`
	Version int       `json:"version"`
	Resumed int       `json:"resumed,omitempty"` // steps done before

	Model      string          `json:"model"` // the model_type
	Parameters int             `json:"parameters"`
	Rows       int             `json:"rows"`            // of training data
	EvalRows   int             `json:"eval_rows"`       // held out
	Steps      int             `json:"steps"`           // of the whole run
	Ranks      []string        `json:"ranks,omitempty"` // the machine of each rank; nil for a process that trains alone
	Config     json.RawMessage `json:"config"`

	Environment Environment `json:"environment"`
	Memory      Memory      `json:"memory"`
	Sites       []Site      `json:"sites"`
	Plugins     []Plugin    `json:"plugins"`
}

// Environment is the program and the machine.
type Environment struct {
	Program string `json:"program"` // the version of this module
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Threads int    `json:"threads"`
	SIMD    string `json:"simd"` // the vector instructions in use
}

// Memory is what was planned before the first step, in bytes.
type Memory struct {
	Parameters  int64 `json:"parameters"`
	Optimizer   int64 `json:"optimizer"`
	Activations int64 `json:"activations"`    // with gradients
	Kept        int64 `json:"kept,omitempty"` // packed weights that kernels keep, at most
}

// Site is what the patch has done at one site.
type Site struct {
	Path      string  `json:"path"`
	Op        core.Op `json:"op"`
	Kernel    string  `json:"kernel,omitempty"`     // "" for the plain forward
	Reason    string  `json:"reason,omitempty"`     // why that
	CoveredBy string  `json:"covered_by,omitempty"` // the site whose kernel does this one's work
	Measured  string  `json:"measured,omitempty"`   // the figures that auto has decided by
}

// Plugin is an executable whose kernels are in use.
type Plugin struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Path     string `json:"path"`
	Checksum string `json:"checksum"` // SHA-256, hexadecimal
	// Summaries are what its kernels say of themselves, such as the library that they have found.
	Summaries []string `json:"summaries,omitempty"`
}

// Step is one optimizer step.
type Step struct {
	Time     time.Time `json:"time"`
	Step     int       `json:"step"` // from 1
	Loss     float64   `json:"loss"`
	LR       float64   `json:"lr"`
	GradNorm float64   `json:"grad_norm"` // before clipping
	Tokens   int       `json:"tokens"`    // padding included
	Seconds  float64   `json:"seconds"`
	Memory   int64     `json:"memory"` // bytes of this process, without plugins; 0 if unknown
	Metrics  Metrics   `json:"metrics,omitempty"`

	Waited  float64 `json:"waited,omitempty"`  // seconds in which the first of several ranks waited for others
	Slowest int     `json:"slowest,omitempty"` // the rank that computed longest
}

// Metrics are what a run measures beside its loss, by trl's names, such as rewards/chosen; nil for nothing.
type Metrics map[string]float64

// Rate is the tokens per second, 0 if the time is unknown.
func (s Step) Rate() float64 {
	if s.Seconds <= 0 {
		return 0
	}
	return float64(s.Tokens) / s.Seconds
}

// Eval is an evaluation on the held-out rows.
type Eval struct {
	Time    time.Time `json:"time"`
	Step    int       `json:"step"` // steps done before it
	Loss    float64   `json:"eval_loss"`
	Targets int       `json:"eval_targets"`
	Metrics Metrics   `json:"metrics,omitempty"`
}

// Incident is what happened to a kernel during one step and was dealt with.
type Incident struct {
	Time      time.Time `json:"time"`
	Step      int       `json:"step"`
	Kernel    string    `json:"kernel"`
	Op        core.Op   `json:"op"`
	Deaths    uint64    `json:"deaths,omitempty"`    // of its process, which was started again
	Repeats   uint64    `json:"repeats,omitempty"`   // calls that were made again
	Fallbacks uint64    `json:"fallbacks,omitempty"` // calls that the reference answered
	TakenOff  bool      `json:"taken_off,omitempty"` // it was wrong, and its sites are plain from here on
	Error     string    `json:"error,omitempty"`
}

// Checkpoint is one that was written.
type Checkpoint struct {
	Time time.Time `json:"time"`
	Step int       `json:"step"`
	Path string    `json:"path"`
}

// Warning is something that did not stop the run.
type Warning struct {
	Time time.Time `json:"time"`
	Step int       `json:"step"` // steps done before it
	Text string    `json:"text"`
}

// Kernels is where the time went since Start, so far.
type Kernels struct {
	Time  time.Time `json:"time"`
	Step  int       `json:"step"` // steps done before it
	Calls []Call    `json:"calls"`
}

// Call sums up the calls of an operation.
type Call struct {
	Op      string  `json:"op"`
	Kernel  string  `json:"kernel,omitempty"` // "" for the plain implementation
	Pass    string  `json:"pass"`             // forward, recompute, backward or update
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"`
}

// End is the end of a run that was not killed.
type End struct {
	Time        time.Time `json:"time"`
	Step        int       `json:"step"`       // steps done
	Loss        float64   `json:"train_loss"` // the mean of their losses
	Interrupted bool      `json:"interrupted,omitempty"`
	Error       string    `json:"error,omitempty"`
	Checked     *Checked  `json:"checked,omitempty"` // nil if no kernel was
}

// Checked is how many calls of kernels were compared with the plain forward, how long that
// took, and how many were left because nothing can judge them.
type Checked struct {
	Calls   int             `json:"calls"`
	Seconds float64         `json:"seconds"`
	Left    map[core.Op]int `json:"left,omitempty"`
}

func (*Start) kind() string      { return "start" }
func (*Step) kind() string       { return "step" }
func (*Eval) kind() string       { return "eval" }
func (*Incident) kind() string   { return "plugin" }
func (*Checkpoint) kind() string { return "checkpoint" }
func (*Warning) kind() string    { return "warning" }
func (*Kernels) kind() string    { return "kernels" }
func (*End) kind() string        { return "end" }

// newEvent returns an empty event of a kind; nil for a kind that is not known, which a
// later program may have written.
func newEvent(kind string) Event {
	for _, e := range []Event{&Start{}, &Step{}, &Eval{}, &Incident{}, &Checkpoint{}, &Warning{}, &Kernels{}, &End{}} {
		if e.kind() == kind {
			return e
		}
	}
	return nil
}

// appendLine appends an event as a line. A step, of which there are many, takes no memory
// besides.
func appendLine(b []byte, e Event) ([]byte, error) {
	b = append(append(append(b, `{"event":"`...), e.kind()...), `",`...)
	if s, ok := e.(*Step); ok {
		return append(s.appendFields(b), "}\n"...), nil
	}
	body, err := plainjson.Marshal(e)
	if err != nil {
		return nil, err
	}
	return append(append(b, body[1:]...), '\n'), nil
}

func (s *Step) appendFields(b []byte) []byte {
	b = append(s.Time.AppendFormat(append(b, `"time":"`...), time.RFC3339Nano), `",`...)
	b = strconv.AppendInt(append(b, `"step":`...), int64(s.Step), 10)
	b = appendFloat(append(b, `,"loss":`...), s.Loss)
	b = appendFloat(append(b, `,"lr":`...), s.LR)
	b = appendFloat(append(b, `,"grad_norm":`...), s.GradNorm)
	b = strconv.AppendInt(append(b, `,"tokens":`...), int64(s.Tokens), 10)
	b = appendFloat(append(b, `,"seconds":`...), s.Seconds)
	b = strconv.AppendInt(append(b, `,"memory":`...), s.Memory, 10)
	if s.Waited > 0 {
		b = appendFloat(append(b, `,"waited":`...), s.Waited)
		b = strconv.AppendInt(append(b, `,"slowest":`...), int64(s.Slowest), 10)
	}
	if len(s.Metrics) == 0 {
		return b
	}
	separator := `,"metrics":{"`
	for _, name := range slices.Sorted(maps.Keys(s.Metrics)) {
		b = append(append(append(b, separator...), name...), `":`...)
		b, separator = appendFloat(b, s.Metrics[name]), `,"`
	}
	return append(b, '}')
}

// appendFloat writes the shortest digits that read back as v. What JSON has no number for
// is null; a run stops before it gets that far.
func appendFloat(b []byte, v float64) []byte {
	if v-v != 0 {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
