// Package trust decides which executables may be started as plugins.
//
// A Lock is a list of plugins by checksum that is kept under version control, like
// go.sum: with one, a plugin that has changed or that nobody listed is refused before
// any of its code runs. CheckFile refuses, with a lock or without, what somebody else
// could have written.
//
// Both protect the user from other people's files. Neither says that a plugin is good:
// docs/security.md has the whole picture.
package trust
