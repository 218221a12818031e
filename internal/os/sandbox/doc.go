// Package sandbox lets tests run as on a machine that refuses what most allow, and see what a
// program saves in which order: it installs filters of system calls as containers do (seccomp,
// on Linux, on the processors whose numbers of calls it knows).
package sandbox
