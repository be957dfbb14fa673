package main

import (
	"os/exec"
	"sync/atomic"
)

// A child process runs, which the signal of an interrupt reaches as well.
var inChild atomic.Bool

func inChildOf(cmd *exec.Cmd) (string, error) {
	inChild.Store(true)
	defer inChild.Store(false)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
