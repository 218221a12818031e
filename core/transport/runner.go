package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
)

// starter runs a plugin's executable for go-plugin. go-plugin's own way would let the
// plugin read the host's standard input, and starts whatever lies at a path after it has
// compared the checksum of what lay there.
type starter struct {
	*spawned
	process *process
	exe     *executable
}

var _ runner.Runner = (*starter)(nil)

// newStarter prepares the start of what must have the checksum, see mustHave. The process works in the
// folder of its executable, reads nothing from standard input, and has its socket in dir.
func (p *process) newStarter(exe *executable,
	checksum, dir string) func(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) {
	return func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
		err := exe.mustHave(checksum)
		if err != nil {
			return nil, err
		}
		p.cmd.Dir = filepath.Dir(exe.abs)
		if p.cmd.Path, err = exe.alias(dir); err != nil {
			return nil, err
		}
		p.cmd.Env = append(append(p.cmd.Env, spec.Env...), goplugin.EnvUnixSocketDir+"="+dir)
		return &starter{p.spawned, p, exe}, nil
	}
}

// Start implements runner.Runner.
func (s *starter) Start(context.Context) error {
	keepDescriptors()
	err := s.spawn()
	if failed, ok := errors.AsType[*os.PathError](err); ok && failed.Op == "fork/exec" {
		failed.Path = s.exe.path // not the name of the open file
	}
	if err != nil {
		return err
	}
	s.process.life.hold(s.cmd.Process)
	if err := limitMemory(s.cmd.Process.Pid, s.process.opts.MaxMemory); err != nil {
		return errors.Join(err, s.cmd.Cancel(), s.wait())
	}
	return nil
}

// Wait implements runner.Runner. go-plugin calls it once it has read all output. It waits
// for close, too: were go-plugin told that the process has ended while it connects, it
// would leave its half of the connection behind, trying for ever.
func (s *starter) Wait(context.Context) error {
	<-s.process.closed
	return s.wait()
}

// Kill implements runner.Runner. The number of a process that has ended, maybe hours ago, can be another group's.
func (s *starter) Kill(context.Context) error {
	if s.cmd.Process == nil || isClosed(s.ended) {
		return nil
	}
	return s.cmd.Cancel()
}

// Stdout implements runner.Runner.
func (s *starter) Stdout() io.ReadCloser {
	return &firstLine{ReadCloser: s.stdout, left: maxFirstLine, dropped: s.process.printed}
}

// Stderr implements runner.Runner.
func (s *starter) Stderr() io.ReadCloser { return s.stderr }

// Name implements runner.Runner.
func (s *starter) Name() string { return s.exe.path }

// ID implements runner.Runner.
func (s *starter) ID() string {
	if s.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(s.cmd.Process.Pid)
}

// Diagnose implements runner.Runner. startErrors knows more: this is the moment for a process that is about to end by
// itself to say why, before go-plugin ends it.
func (s *starter) Diagnose(context.Context) string {
	s.alone = s.endsWithin(endGrace)
	return ""
}

// PluginToHost implements runner.Runner: both processes see one file system.
func (s *starter) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (s *starter) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
