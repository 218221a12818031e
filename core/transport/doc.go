// Package transport runs kernel plugins: executables that it starts, asks who they
// are, and calls through shared memory.
//
// # Two processes
//
// This is the host's side; a plugin links core/plugin, and what the two agree on is package
// internal/wire. The host opens a plugin with Open, or with Options.Open, either of which is
// a core.Opener. go-plugin starts the process and shakes hands, logs what it prints and sees
// to its end. Tensors never travel by RPC.
//
// # Memory
//
// Tensors lie in regions of package internal/os/shm that both processes map. Regions of
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
// A call is a record of fixed layout in shared memory and a doorbell: the caller changes a
// word, the callee sees it within its short active wait or is woken by a futex. Where futexes
// or descriptor passing are missing, the same record goes over a socket, in a plain stream
// or, to a plugin that has none, by gRPC (package proto), and regions are mapped by path;
// see Options.Portable. Questions about kernels are texts that go the same way.
// docs/protocol.md has everything that a plugin in another language has to know.
//
// Calls that follow one another without the host between them go in one request, a series (core.Series), to a plugin
// that takes them. The plugins that are built into the host's program share a process (OpenBuiltIn), so that whole
// layers are a series.
//
// # Death
//
// A plugin that dies during a call, or exceeds the deadline and is stopped, is started
// again and the call repeated; as nobody writes the inputs meanwhile, the result is the
// same to the last bit. After three deaths on one call its kernels are replaced by the
// reference for the rest of the run, whose results are the same up to rounding, with a
// warning; with Options.Strict, by an error that wraps core.ErrPluginExited. A call that the kernel refuses with
// core.ErrNotSupported is answered by the reference as well, counted, or is an error if
// strict. A plugin ends when its host does, however that ends.
//
// # Trust
//
// What is started is a file that nobody but the user and root could have written, and
// that Options.Lock lists if there is one; see package trust. It is started from the open
// file that was checked, where the system can, with a minimal environment
// (Options.Environment), standard input from nowhere, no descriptors but those above, and
// the limits of Options. Where requests go by RPC, the socket is private to the user, and
// both sides show certificates made for the one connection. A plugin runs as the user
// all the same: docs/security.md says what that means.
//
// # Environment
//
// TUNE_PLUGIN_DIR adds folders to SearchPath; TUNE_TRANSPORT=portable is
// Options.Portable, with which plugins that know the doorbell only are refused. TUNE_PLUGIN,
// TUNE_LINK, TUNE_SPIN, TUNE_THREADS, TUNE_KEEP, TUNE_HOST_PID and TUNE_BUILT_IN are set by the host
// for its plugins.
package transport
