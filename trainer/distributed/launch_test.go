package distributed

import (
	"os"
	"strings"
	"testing"
)

func TestTheLauncherIsReadFromTheEnvironment(t *testing.T) {
	for name, tt := range map[string]struct {
		env   string
		want  Launch
		alone bool
	}{
		"none":               {"", Launch{}, true},
		"mpirun of Open MPI": {"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=2", Launch{"Open MPI", 2, 4}, false},
		"one process":        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", Launch{"Open MPI", 0, 1}, true},
		"mpiexec of MPICH":   {"PMI_RANK=1 PMI_SIZE=2", Launch{"Hydra", 1, 2}, false},
		"srun with PMIx": {"PMIX_RANK=3 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_NTASKS=8", Launch{"PMIx", 3, 8},
			false},
		"srun with PMI 2":     {"PMI_RANK=3 PMI_SIZE=8 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8", Launch{"Hydra", 3, 8}, false},
		"PMIx":                {"PMIX_RANK=3", Launch{"PMIx", 3, 0}, false},
		"a batch script":      {"SLURM_PROCID=0 SLURM_NTASKS=8", Launch{}, true},
		"srun without an MPI": {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8", Launch{"Slurm", 3, 8}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []string{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
				"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"} {
				t.Setenv(v, "") // which brings back what was there
				os.Unsetenv(v)
			}
			for _, v := range strings.Fields(tt.env) {
				key, value, _ := strings.Cut(v, "=")
				os.Setenv(key, value)
			}
			if got := Detect(); got != tt.want || got.Alone() != tt.alone {
				t.Errorf("%+v, alone %v; want %+v, %v", got, got.Alone(), tt.want, tt.alone)
			}
		})
	}
}
