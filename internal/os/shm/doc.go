// Package shm makes memory for tensors that other processes can map.
//
// A Region is a large sparse piece of memory. On Linux it is anonymous memory behind a
// descriptor (memfd), which costs nothing until it is touched; elsewhere it is a mapped
// temporary file. A Pool is as many regions as it takes, with an allocator in each. A
// region of kind HostOnly is sealed on Linux: whoever receives its descriptor can map
// it for reading, and the operating system refuses anything more, however hard a buggy
// process tries. A region of kind Shared has no seal: it is for the one other process
// that writes its results there.
//
// Regions guard against faulty code, not against hostile code: a process of the same
// user has other ways to do harm.
package shm
