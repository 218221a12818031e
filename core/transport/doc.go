// Package transport runs kernel plugins: executables that it starts, asks who they
// are, and calls through shared memory.
//
// # Two processes
//
// The host opens a plugin with Open, or with Options.Open, either of which is a
// core.Opener; a plugin's main function is one call of Serve. go-plugin carries the
// handshake, a few control messages over gRPC (package proto), logs and an orderly end.
// Tensors never travel by RPC.
//
// # Memory
//
// Tensors lie in regions of package internal/shm that both processes map. Regions of
// the host are sealed: the plugin reads them, and the operating system refuses it
// anything more. A plugin writes its output memory only, which the host
// makes and which outlives the plugin's process; kernels name it as their
// core.OutputMemory. A region is passed to a plugin the first time a call refers to
// it, and stays mapped until the plugin's process ends or, once the host has closed the
// region, until the next call of the plugin. Tensors elsewhere work too: they are
// copied, which is said once and counted in core.Health.
//
// # Calls
//
// A call is a record of fixed layout in shared memory (record.go) and a doorbell: the
// caller changes a word, the callee sees it within its short active wait or is woken by
// a futex. Where futexes or descriptor passing are missing, the same record goes by
// RPC and regions are mapped by path; see Options.Portable.
//
// A plugin without gRPC, in another language, is asked about its kernels the way it is
// called (bare.go). docs/protocol.md has everything that such a plugin has to know.
//
// # Death
//
// A plugin that dies during a call, or exceeds the deadline and is stopped, is started
// again and the call repeated; as nobody writes the inputs meanwhile, the result is the
// same to the last bit. After three deaths on one call its kernels are replaced by the
// reference for the rest of the run, with a warning; with Options.Strict, by an error
// that wraps core.ErrPluginExited. A call that the kernel refuses with
// core.ErrNotSupported is answered by the reference as well, counted, or is an error if
// strict. A plugin ends when its host does, however that ends.
//
// # Trust
//
// What is started is a file that nobody but the user and root could have written, and
// that Options.Lock lists if there is one; see package trust. It is started from the open
// file that was checked, where the system can, with a minimal environment
// (Options.Environment), standard input from nowhere, no descriptors but those above, and
// the limits of Options. The socket of the control messages is private to the user, and
// both sides show certificates made for the one connection. A plugin runs as the user
// all the same: docs/security.md says what that means.
//
// # Environment
//
// TUNE_PLUGIN_DIR adds folders to SearchPath; TUNE_TRANSPORT=portable is
// Options.Portable, with which plugins without gRPC are refused. TUNE_PLUGIN, TUNE_LINK,
// TUNE_SPIN, TUNE_THREADS and TUNE_HOST_PID are set by the host for its plugins.
package transport
