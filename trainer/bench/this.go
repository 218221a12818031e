package bench

// ThisMachine describes the machine that this program runs on.
func ThisMachine() Machine { return thisMachine() }
