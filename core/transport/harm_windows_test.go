package transport

// Only tests on Linux ask for these.

func fillMemory() { panic("there is no limit of memory here") }

func startChild(bool) { panic("there are no process groups here") }
