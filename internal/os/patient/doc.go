// Package patient renames and removes files where Windows lets nobody do so for a moment, as somebody has them open:
// another run that reads one, or a scanner of viruses. It tries again for two seconds. Elsewhere its functions are
// those of package os.
package patient
