package distributed

import (
	"fmt"
	"os"
	"strconv"
)

// Launch is what the launcher of this process has left in its environment.
type Launch struct {
	By   string // "Open MPI", "Hydra" (MPICH), "PMIx" or "Slurm"; "" for none
	Rank int
	Size int // 0 where the environment does not tell
}

// Detect reads the environment. Slurm's variables come last, as they are there beside those of an MPI.
func Detect() Launch {
	for _, l := range []struct{ by, rank, size string }{
		{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"Hydra", "PMI_RANK", "PMI_SIZE"},
		{"PMIx", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
		// SLURM_NTASKS is there in a batch script, too, which is one process.
		{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
	} {
		rank, err := strconv.Atoi(os.Getenv(l.rank))
		if err != nil {
			continue
		}
		size, err := strconv.Atoi(os.Getenv(l.size))
		if l.by == "Slurm" && err != nil {
			continue
		}
		return Launch{l.by, rank, size}
	}
	return Launch{}
}

// Alone reports whether the process is the only one of its kind, as far as the environment tells.
func (l Launch) Alone() bool { return l.By == "" || l.Size == 1 }

// Name names this rank for people, as World.Name does: its number and its machine.
func (l Launch) Name() string {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Sprintf("rank %d", l.Rank)
	}
	return fmt.Sprintf("rank %d (%s)", l.Rank, host)
}
