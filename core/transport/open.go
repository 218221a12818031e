package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/os/self"
	"github.com/seed98097648/tune/internal/os/shm"
)

// Open starts the plugin at path with default options. It is a core.Opener.
func Open(ctx context.Context, path string) (core.Plugin, error) {
	return Options{}.Open(ctx, path)
}

var (
	_ core.Opener = Open
	_ core.Opener = Options{}.Open
)

// Open starts the plugin at path and asks it who it is. It is a core.Opener. A path that begins
// with core.BuiltIn starts this program, which must call plugin.ServeBuiltIn then. Errors
// wrap core.ErrIncompatible if the file is not a plugin that this host understands,
// core.ErrUntrusted if it must not be started, core.ErrPluginExited if the process ended
// or had to be stopped, and fs.ErrNotExist if the file is not there; they name the path
// and what to do.
func (o Options) Open(ctx context.Context, path string) (core.Plugin, error) {
	o, err := o.ready()
	if err != nil {
		return nil, err
	}
	i := newInstance(o, path)
	if name, builtIn := strings.CutPrefix(path, core.BuiltIn); builtIn {
		i.names = []string{name}
	}
	err = i.open(ctx, func(sum string) error {
		if o.Lock == nil {
			return nil
		}
		return o.Lock.Allow(path, sum)
	})
	if err != nil {
		return nil, err
	}
	p, err := i.admit(path, 0)
	if err != nil {
		i.proc.end()
		return nil, err
	}
	return p, nil
}

// ready returns the options with all that is not set, and makes room.
func (o Options) ready() (Options, error) {
	o = o.withDefaults()
	err := o.CheckLimits()
	if err == nil {
		shm.Sweep()
	}
	return o, err
}

func newInstance(o Options, path string) *instance {
	return &instance{opts: o, path: path, alone: map[binding]bool{}}
}

// open starts the executable of an instance, if its checksum is allowed: "" stands for that of this program where
// there is no lock.
func (i *instance) open(ctx context.Context, allow func(sum string) error) error {
	exe, err := openExecutable(i.opts.how, i.path, i.opts.notes())
	if err != nil {
		return explainFiles(err)
	}
	defer exe.Close()
	// Without a lock nobody needs the checksum of this program before it is started again: it is read meanwhile.
	late := false
	if exe.own && i.opts.Lock == nil {
		known, _, _ := exe.known()
		late = known == ""
	}
	if late {
		go self.Checksum()
	} else if i.checksum, err = exe.checksum(); err != nil {
		return err
	}
	if err := allow(i.checksum); err != nil {
		return err
	}
	if i.proc, err = startExecutable(ctx, i.opts, exe, i.checksum, i.names...); err != nil {
		return err
	}
	if i.about = i.proc.about; !late {
		return nil
	}
	if i.checksum, err = exe.checksum(); err != nil {
		i.proc.end()
	}
	return err
}

// admit believes a plugin of the process, by its place there, who it is. The first one gives the instance memory for
// outputs.
func (i *instance) admit(path string, place int) (*plugin, error) {
	m := i.proc.about[place]
	if m.Name == "" || len(m.Kernels) == 0 {
		return nil, fmt.Errorf("transport: %s: %w: it offers no kernel, or has no name; "+
			"its author must pass both to plugin.Serve", path, core.ErrIncompatible)
	}
	if err := checkDescription(m); err != nil {
		return nil, fmt.Errorf("transport: %s: %w: %w; its author must change what is passed to plugin.Serve",
			path, core.ErrIncompatible, err)
	}
	if i.opts.Lock != nil {
		if err := i.opts.Lock.AllowName(path, i.checksum, m.Name); err != nil {
			return nil, err
		}
	}
	m.Path, m.Checksum = path, i.checksum
	if i.output == nil {
		name := m.Name
		if len(i.names) > 1 {
			name = "built-in"
		}
		i.output = i.opts.pool(name, i.opts.OutputSize, shm.Shared)
		i.stage.memory = i.opts.pool("staging", 0, shm.HostOnly)
	}
	p := &plugin{instance: i, manifest: m}
	first := 0
	for _, before := range i.proc.about[:place] {
		first += len(before.Kernels)
	}
	for n, info := range m.Kernels {
		p.kernels = append(p.kernels, &kernel{plugin: p, number: uint32(first + n), info: info})
	}
	i.members = append(i.members, p)
	return p, nil
}

// missing is the remedy for a file that was there when it was scanned, and for one that
// names an interpreter or loader that this machine lacks: the system does not tell.
const missing = "the executable, or the interpreter that it names, is missing; " +
	"put it back or rebuild it, and do not remove plugins during a run"

// unrecognized is what go-plugin's error begins with about a first line that is no handshake.
const unrecognized = "Unrecognized remote plugin message: "

const printsFirst = "it is not a kernel plugin, or prints to standard output before it shakes hands; " +
	"move it out of the plugin folder, or have it print to standard error"

const moreThreads = "raise the limit of processes and threads (ulimit -u, or pids.max of the control group)"

// startErrors tells the reasons apart that go-plugin gives for a start that failed,
// as texts only. Tests hold them against the pinned version.
var startErrors = []struct {
	text   string
	is     error
	remedy string
	whole  bool // go-plugin's own words, which are of its protocol, add nothing
}{
	// These two quote the plugin, which may say anything.
	{"Failed to read any lines", core.ErrPluginExited, "it ended before the handshake", true},
	{unrecognized, core.ErrIncompatible, printsFirst, true},
	{"error parsing core protocol version", core.ErrIncompatible, printsFirst, false}, // printed without an end of line
	{syscall.ENFILE.Error(), errResources, plainfile.MoreFiles(syscall.ENFILE) + orFewer, false},
	{"too many open files", errResources, plainfile.MoreFiles(syscall.EMFILE) + orFewer, false},
	// One that was to be passed on lies beyond the limit.
	{"bad file descriptor", errResources, plainfile.MoreFiles(syscall.EMFILE) + orFewer, false},
	{"resource temporarily unavailable", errResources, moreThreads, false},
	{"open " + os.DevNull + ": no such file", fs.ErrNotExist,
		"a plugin reads " + os.DevNull + ", which is missing; mount /dev", false},
	{"cannot allocate memory", errResources, "there is no memory for another process", false},
	{"checksums did not match", core.ErrIncompatible,
		"the executable has changed since it was scanned; scan again, and do not replace plugins during a run", false},
	{"timeout while waiting for plugin to start", core.ErrPluginExited,
		"it did not shake hands in time; is it a kernel plugin? If not, move it out of the plugin folder", true},
	{"plugin exited before we could connect", core.ErrPluginExited, "it ended before the handshake", true},
	{"ncompatible API version", core.ErrIncompatible,
		fmt.Sprintf("this host speaks protocol version %d; rebuild the plugin with this version of tune", ProtocolVersion),
		false},
	{"exec format error", core.ErrIncompatible,
		"it is not a program for this machine; rebuild it, or move it out of the plugin folder", false},
	{"permission denied", core.ErrIncompatible,
		"it may not be run; check the permissions of the file and of its folder", false},
	{"no such file or directory", fs.ErrNotExist, missing, false},
	{"cannot find the file", fs.ErrNotExist, missing, false}, // Windows
}

// notOurs is in what go-plugin prints in a plugin that misses its cookie.
const notOurs = "This binary is a plugin"

// startError ends the process and explains why it could not be started.
func (p *process) startError(ctx context.Context, cause error) error {
	p.end()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("transport: start %s: %w", p.path, err)
	}
	if errors.Is(cause, core.ErrPluginExited) || errors.Is(cause, core.ErrIncompatible) {
		return fmt.Errorf("transport: start %s: %w", p.path, cause)
	}
	remedy, is := p.whyNotStarted(cause.Error())
	if words := p.words.String(); words != "" {
		remedy += "; its last words: " + words
	}
	return fmt.Errorf("transport: start %s: %w: %s%s", p.path, is, remedy, p.limitNote())
}

// whyNotStarted says what go-plugin means by an error of a start.
func (p *process) whyNotStarted(cause string) (remedy string, is error) {
	remedy, is = "it is not a kernel plugin; move it out of the plugin folder", core.ErrIncompatible
	whole := false
	if !strings.Contains(p.words.String(), notOurs) {
		for _, e := range startErrors {
			if strings.Contains(cause, e.text) {
				remedy, is, whole = e.remedy, e.is, e.whole
				break
			}
		}
	}
	reason, _, _ := strings.Cut(cause, "\n")
	if printed, ok := strings.CutPrefix(reason, unrecognized); ok && printed != "" {
		remedy += fmt.Sprintf("; it printed %.200q", printable(printed))
	}
	if !whole {
		remedy += ": " + printable(reason)
	}
	return remedy + p.state(p.spawned.alone), is
}

// limitNote reminds of limits that a plugin may have run into.
func (p *process) limitNote() string {
	note := ""
	words := p.words.String()
	if strings.Contains(words, "pthread_create failed") || strings.Contains(words, noThread) { // Go's last words then
		note = "; " + moreThreads + ", or of addresses (ulimit -v)"
	}
	if p.opts.MaxMemory == 0 {
		return note
	}
	return note + fmt.Sprintf("; its memory is limited to %.0f MiB", float64(p.opts.MaxMemory)/(1<<20))
}
