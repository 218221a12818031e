package trainer

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/cpu"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/journal"
)

// planned is the memory that the run takes by its plan.
func (r *recorder) planned() journal.Memory {
	m := journal.Memory{Optimizer: r.engine.StateBytes(), Activations: int64(r.engine.Program().Bytes()),
		Kept: r.engine.Kept()}
	for _, p := range r.job.Model.Params() {
		m.Parameters += int64(len(p.Tensor.Data))
	}
	if r.job.Config.Ranks.Reduce.Shard {
		m.Optimizer /= int64(r.job.World.Size())
	}
	return m
}

// plugins lists those whose kernels are in use.
func (r *recorder) plugins() []journal.Plugin {
	plugins, used := []journal.Plugin{}, r.sum.Report.Applied()
	for _, f := range r.job.Registry.Listing() {
		if m := f.Manifest; f.Err == nil && used[m.Name] > 0 {
			plugins = append(plugins, journal.Plugin{Name: m.Name, Version: m.Version, Path: f.Path, Checksum: m.Checksum,
				Summaries: m.Summaries()})
		}
	}
	return plugins
}

func sites(r *core.Report) []journal.Site {
	all := make([]journal.Site, len(r.Actions))
	for i, a := range r.Actions {
		all[i] = journal.Site{Path: a.Site.Path, Op: a.Site.Op, Reason: a.Reason, CoveredBy: a.CoveredBy}
		if a.Kernel != nil {
			all[i].Kernel = a.Kernel.Info().Name
		}
		if a.Measured != nil {
			all[i].Measured = a.Measured.String()
		}
	}
	return all
}

func environment() journal.Environment {
	e := journal.Environment{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cmp.Or(cpu.Name(), "unknown"),
		Cores: runtime.NumCPU(), Threads: simd.Threads(), SIMD: simd.Instructions()}
	if info, ok := debug.ReadBuildInfo(); ok {
		e.Program = info.Main.Version
	}
	return e
}
