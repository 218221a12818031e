//go:build unix && !linux

package hugepage

const noReserve = 0

func advise([]byte) {}
