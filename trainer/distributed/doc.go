// Package distributed has several processes train one model together. They are the ranks of an MPI job: whoever
// starts them with mpirun or srun has what it takes. The MPI of the machine is loaded while the program runs, Open MPI
// 4 and 5 and those of the ABI of MPICH (MPICH 3.1 and later, Intel MPI, MVAPICH), by what has started the process;
// without such a launcher nothing is loaded.
//
// One thread of each process makes all calls of MPI. What it is asked for are collectives that do not block, which it
// looks after every millisecond at the latest: none of the MPIs goes on by itself. No failure of another process or
// of the network is an error of MPI in time, if ever, so that each collective has a time after which the process
// ends; see Options.
//
// Bits depend neither on the MPI nor on which rank is the first to be ready: sums are made here, in the order of the
// ranks of a node and then of the nodes. MPI moves bytes.
package distributed
